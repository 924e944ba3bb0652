// SPDX-License-Identifier: Apache-2.0
// Bytes that a Python caller passes: keys, values, bounds.
#ifndef BONSAI_PYTHON_BINDING_BYTES_H_
#define BONSAI_PYTHON_BINDING_BYTES_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::python {

namespace nb = nanobind;

// A view of the bytes of one object, which is kept alive and, unless it is immutable, locked against resizing.
// Requires: made and destroyed with the interpreter's lock held; the view may be read without it.
class Bytes {
 public:
  // Errors: TypeError, if `object` is neither bytes nor has a contiguous buffer.
  explicit Bytes(nb::handle object);
  Bytes(Bytes&& other) noexcept;
  Bytes& operator=(Bytes&&) = delete;
  ~Bytes();

  [[nodiscard]] const char* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::string_view view() const { return {data_, size_}; }

 private:
  nb::object object_;
  Py_buffer buffer_{};  // of an object that is not bytes
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// A list of them, in the form that the C interface takes.
class BytesList {
 public:
  void add(nb::handle object);
  void reserve(size_t count);

  [[nodiscard]] size_t size() const { return owners_.size(); }
  [[nodiscard]] const char* const* data() const { return data_.data(); }
  [[nodiscard]] const size_t* sizes() const { return sizes_.data(); }

 private:
  std::vector<Bytes> owners_;
  std::vector<const char*> data_;
  std::vector<size_t> sizes_;
};

inline nb::bytes to_bytes(std::string_view text) { return nb::bytes(text.data(), text.size()); }

}  // namespace bonsai::python

#endif  // BONSAI_PYTHON_BINDING_BYTES_H_
