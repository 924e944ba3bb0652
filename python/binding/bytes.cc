// SPDX-License-Identifier: Apache-2.0
#include "bytes.h"

#include <utility>

namespace bonsai::python {

Bytes::Bytes(nb::handle object) : object_(nb::borrow(object)) {
  if (PyBytes_CheckExact(object.ptr())) {
    data_ = PyBytes_AS_STRING(object.ptr());
    size_ = static_cast<size_t>(PyBytes_GET_SIZE(object.ptr()));
    return;
  }
  if (PyUnicode_Check(object.ptr()))
    throw nb::type_error("keys and values are bytes, not str: write b\"...\", or text.encode()");
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  data_ = static_cast<const char*>(buffer_.buf);
  size_ = static_cast<size_t>(buffer_.len);
}

Bytes::Bytes(Bytes&& other) noexcept
    : object_(std::move(other.object_)),
      buffer_(std::exchange(other.buffer_, Py_buffer{})),
      data_(other.data_),
      size_(other.size_) {}

Bytes::~Bytes() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
}

void BytesList::reserve(size_t count) {
  owners_.reserve(count);
  data_.reserve(count);
  sizes_.reserve(count);
}

void BytesList::add(nb::handle object) {
  const Bytes& bytes = owners_.emplace_back(object);
  data_.push_back(bytes.data());
  sizes_.push_back(bytes.size());
}

}  // namespace bonsai::python
