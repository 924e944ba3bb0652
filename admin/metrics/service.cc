// SPDX-License-Identifier: Apache-2.0
#include "admin/metrics/service.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <iterator>
#include <new>
#include <sstream>
#include <string_view>
#include <utility>

#include "admin/text.h"
#include "base/memory.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "base/with_memory.h"

namespace bonsai::metrics {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Error = boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto kPause = std::chrono::milliseconds(20);  // until it looks again whether it may take a connection
constexpr auto kLinger = std::chrono::milliseconds(500);
constexpr const char* kTextFormat = "text/plain; version=0.0.4; charset=utf-8";

Status parse(const std::string& text, tcp::endpoint* endpoint) {
  const size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  Error wrong;
  const asio::ip::address address = asio::ip::make_address(host, wrong);
  if (wrong || error != std::errc() || end != port.data() + port.size()) {
    return Status::InvalidArgument("'" + admin::escape(text) + "' is no address for metrics; give 127.0.0.1:PORT, or " +
                                   "HOST:PORT with the numeric address of this machine that Prometheus reaches");
  }
  *endpoint = tcp::endpoint(address, number);
  return Status::OK();
}

std::string text_of(const tcp::endpoint& endpoint) {
  std::ostringstream text;
  text << endpoint;
  return text.str();
}

std::string collect(const Sources& sources) {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& source : sources) std::ranges::move(source->Collect(), std::back_inserter(families));
  std::erase_if(families, [](const prometheus::MetricFamily& family) { return family.metric.empty(); });
  return prometheus::TextSerializer().Serialize(families);
}

using Response = http::response<http::string_body>;

Response answer(http::status status, std::string body) {
  Response response(status, 11);
  response.set(http::field::content_type, kTextFormat);
  response.set(http::field::connection, "close");
  response.body() = std::move(body);
  return response;
}

// One connection, which has one request. It lives as long as a handler of it is waiting.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // `place`: held while the connection is.
  Exchange(tcp::socket socket, const Sources& sources, std::shared_ptr<void> place)
      : stream_(std::move(socket)), sources_(sources), place_(std::move(place)) {
    parser_.header_limit(Service::kRequestBytesMax);
  }

  void read() {
    stream_.expires_after(std::chrono::milliseconds(Service::kRequestMsMax));  // the reply included
    http::async_read_header(stream_, buffer_, parser_, [self = shared_from_this()](const Error& error, size_t) {
      if (!error) return self->reply(self->respond());
      const bool broken = error.category() == beast::http::make_error_code(http::error::bad_method).category();
      if (broken && error != http::error::end_of_stream && error != http::error::partial_message) {
        self->reply(answer(http::status::bad_request, "this is no request that is served here\n"));
      }
    });
  }

 private:
  Response respond() {
    const auto& request = parser_.get();
    const bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
    if (!reads) {
      Response response = answer(http::status::method_not_allowed, "metrics can be read only\n");
      response.set(http::field::allow, "GET, HEAD");
      return response;
    }
    const auto target = request.target();
    if (target.substr(0, target.find('?')) != "/metrics") {
      return answer(http::status::not_found, "the metrics are at /metrics\n");
    }
    return answer(http::status::ok, collect(sources_));
  }

  void reply(Response response) {
    response_ = std::move(response);
    response_.prepare_payload();
    if (parser_.get().method() == http::verb::head) response_.body().clear();  // the length stays
    http::async_write(stream_, response_, [self = shared_from_this()](const Error& error, size_t) {
      Error failed = error;
      if (!failed) self->stream_.socket().shutdown(tcp::socket::shutdown_send, failed);
      if (failed) return;
      self->stream_.expires_after(kLinger);
      self->drop();
    });
  }

  // Reads what else it sends: closing at once would reset the connection, and could take the reply from the client.
  void drop() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(Service::kRequestBytesMax),
                            [self = shared_from_this()](const Error& error, size_t) {
                              if (!error) self->drop();
                            });
  }

  beast::tcp_stream stream_;
  const Sources& sources_;
  const std::shared_ptr<void> place_;
  beast::flat_buffer buffer_{2 * Service::kRequestBytesMax};
  http::request_parser<http::empty_body> parser_;
  Response response_;
};

class ServiceImpl final : public Service {
 public:
  explicit ServiceImpl(Sources sources) : sources_(std::move(sources)), loop_(1), acceptor_(loop_), timer_(loop_) {}
  ~ServiceImpl() override {
    loop_.stop();
    thread_.join();
  }

  Status open(const std::string& address);
  [[nodiscard]] std::string url() const override {
    Error ignored;
    return "http://" + text_of(acceptor_.local_endpoint(ignored)) + "/metrics";
  }

 private:
  void run();
  void await_connection();
  void look_again();
  void serve(tcp::socket socket);

  const Sources sources_;
  const std::shared_ptr<int> places_ = std::make_shared<int>(0);  // one use is this, and each connection's
  asio::io_context loop_;
  tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  base::Thread thread_;
};

Status ServiceImpl::open(const std::string& address) {
  tcp::endpoint endpoint;
  BONSAI_RETURN_IF_ERROR(parse(address, &endpoint));
  Error error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(static_cast<int>(kConnectionsMax), error);
  if (error == asio::error::address_in_use) {
    return Status::Busy("another program listens on " + text_of(endpoint) + "; give the metrics another port");
  }
  if (error) {
    return Status::IoError("metrics cannot be served at " + text_of(endpoint) + ": " + error.message() +
                           "; give an address of this machine and a port that this user may have");
  }
  await_connection();
  return base::Thread::start(
      "metrics", [this] { run(); }, &thread_);
}

void ServiceImpl::run() {
  for (;;) {
    try {
      loop_.run();
      return;
    } catch (const std::bad_alloc&) {  // that connection is closed
      base::memory_ran_out();
    }
  }
}

void ServiceImpl::look_again() {
  timer_.expires_after(kPause);
  timer_.async_wait([this](const Error& error) {
    if (!error) await_connection();
  });
}

void ServiceImpl::await_connection() {
  if (static_cast<size_t>(places_.use_count()) > kConnectionsMax) return look_again();
  acceptor_.async_accept([this](const Error& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    error ? look_again() : await_connection();  // it lacks descriptors or memory now
    if (!error) serve(std::move(socket));
  });
}

void ServiceImpl::serve(tcp::socket socket) {
  std::make_shared<Exchange>(std::move(socket), sources_, places_)->read();
}

}  // namespace

Status Service::start(const std::string& address, Sources sources, std::unique_ptr<Service>* service) {
  return base::with_memory([&] {
    auto made = std::make_unique<ServiceImpl>(std::move(sources));
    BONSAI_RETURN_IF_ERROR(made->open(address));
    *service = std::move(made);
    return Status::OK();
  });
}

}  // namespace bonsai::metrics
