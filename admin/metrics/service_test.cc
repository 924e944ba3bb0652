// SPDX-License-Identifier: Apache-2.0
// What a client of the metrics gets, also a bad one: nothing of it lasts, and others are served.
#include "admin/metrics/service.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <prometheus/metric_family.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/nvm/os_file.h"

namespace bonsai::metrics {
namespace {

constexpr int kReplyMsMax = 30'000;

// One counter; its help says what tests look for. Without memory, if it is told so.
class OneCounter : public prometheus::Collectable {
 public:
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::MetricFamily family, empty;
    family.name = "apples_total";
    family.help = "Apples.";
    family.type = prometheus::MetricType::Counter;
    family.metric.emplace_back();
    family.metric.back().counter.value = 3;
    empty.name = "pears_total";
    return {family, empty};
  }
};

class MetricsService : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ("OK", Service::start("0", {std::make_shared<OneCounter>()}, &service_).ToString());
    const std::string url = service_->url();
    ASSERT_TRUE(url.starts_with("http://127.0.0.1:")) << url;
    port_ = static_cast<uint16_t>(std::stoi(url.substr(17)));
  }
  [[nodiscard]] base::OsFile connect() const {
    base::OsFile file(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(file.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return file;
  }
  static void send(const base::OsFile& to, const std::string& text) {
    static_cast<void>(::send(to.fd(), text.data(), text.size(), MSG_NOSIGNAL));
  }
  // All that comes until the connection ends.
  static std::string read(const base::OsFile& from) {
    std::string text;
    char part[4096];
    for (pollfd ready{from.fd(), POLLIN, 0}; ::poll(&ready, 1, kReplyMsMax) == 1;) {
      const ssize_t got = ::recv(from.fd(), part, sizeof part, 0);
      if (got <= 0) return text;
      text.append(part, static_cast<size_t>(got));
    }
    return text + "(it does not end)";
  }
  [[nodiscard]] std::string ask(const std::string& request) const {
    const base::OsFile connection = connect();
    send(connection, request);
    return read(connection);
  }

  std::unique_ptr<Service> service_;
  uint16_t port_ = 0;
};

TEST_F(MetricsService, ServesWhatItsSourcesCollect) {
  const std::string reply = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 OK\r\n")) << reply;
  EXPECT_NE(reply.find("Content-Type: text/plain; version=0.0.4"), std::string::npos) << reply;
  EXPECT_NE(reply.find("\r\n\r\n# HELP apples_total Apples.\n# TYPE apples_total counter\napples_total 3\n"),
            std::string::npos)
      << reply;
  EXPECT_EQ(reply.find("pears"), std::string::npos) << "a family without samples";
  EXPECT_TRUE(ask("GET /metrics?a=b HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200")) << "an old client";
}

TEST_F(MetricsService, EverythingElseIsAnError) {
  const std::string head = ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200")) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << "it has a body: " << head;
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(ask("GET /metrics/x HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404"));
  const std::string put = ask("PUT /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_TRUE(put.starts_with("HTTP/1.1 405")) << put;
  EXPECT_NE(put.find("Allow: GET, HEAD"), std::string::npos) << put;
  EXPECT_TRUE(ask("what\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(ask("GET /metrics HTTP/1.1\r\nX: " + std::string(Service::kRequestBytesMax, 'x') + "\r\n\r\n")
                  .starts_with("HTTP/1.1 400"));
}

// More connections that send nothing than are served at a time: those behind them are served when their time is over.
TEST_F(MetricsService, ClientsThatSendNothingAreEnded) {
  std::vector<base::OsFile> silent;
  for (size_t i = 0; i < Service::kConnectionsMax + 2; ++i) {
    silent.push_back(connect());
    send(silent.back(), "GET /met");
  }
  EXPECT_TRUE(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200"));
  EXPECT_EQ(read(silent.front()), "");
}

TEST_F(MetricsService, StopsWithConnectionsOpen) {
  const base::OsFile silent = connect();
  send(silent, "GET /met");
  service_.reset();
  EXPECT_EQ(read(silent), "");
}

TEST_F(MetricsService, AddressesThatCannotBeHadAreAnsweredWithTheRemedy) {
  std::unique_ptr<Service> other;
  const Status busy = Service::start("localhost:" + std::to_string(port_), {}, &other);
  EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
  EXPECT_NE(busy.message().find("another program listens on 127.0.0.1:"), std::string_view::npos) << busy.ToString();
  for (const char* const wrong :
       {"", "x", "127.0.0.1", "127.0.0.1:", "host:1", "127.0.0.1:65536", "127.0.0.1:-1", ":1"}) {
    const Status status = Service::start(wrong, {}, &other);
    EXPECT_TRUE(status.IsInvalidArgument()) << wrong << ": " << status.ToString();
    EXPECT_NE(status.message().find("give 127.0.0.1:PORT"), std::string_view::npos) << status.ToString();
  }
  const Status foreign = Service::start("192.0.2.7:0", {}, &other);
  EXPECT_TRUE(foreign.IsIoError()) << foreign.ToString();
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ("OK", Service::start("[::1]:0", {}, &other).ToString());
  EXPECT_TRUE(other->url().starts_with("http://[::1]:")) << other->url();
}

}  // namespace
}  // namespace bonsai::metrics
