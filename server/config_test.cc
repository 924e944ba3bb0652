// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/testing/temp_folder.h"
#include "server/sockets.h"

namespace bonsai::server {
namespace {

std::string addresses_of(const std::string& text) {
  std::vector<Address> addresses;
  if (const Status status = parse_addresses(text, &addresses); !status.ok()) return std::string(status.message());
  std::string all;
  for (const Address& each : addresses) all += (all.empty() ? "" : " ") + each.text();
  return all;
}

TEST(Config, Addresses) {
  EXPECT_EQ(addresses_of("127.0.0.1:6379,[::1]:1,unix:/run/a.sock"), "127.0.0.1:6379 [::1]:1 unix:/run/a.sock");
  EXPECT_EQ(addresses_of("localhost:7"), "127.0.0.1:7");
  for (const char* const wrong :
       {"6379", "127.0.0.1", "example.org:1", "127.0.0.1:99999", "127.0.0.1:", "unix:", "a:b"}) {
    EXPECT_NE(addresses_of(wrong).find("is no address; give HOST:PORT"), std::string::npos) << wrong;
  }
  EXPECT_EQ(addresses_of("unix:" + std::string(107, 'a')), "unix:" + std::string(107, 'a'));
  EXPECT_NE(addresses_of("unix:" + std::string(108, 'a')).find("108 bytes; a socket's path has at most 107"),
            std::string::npos);
  EXPECT_EQ(addresses_of("127.0.0.1:1,127.0.0.1:1"), "127.0.0.1:1 is named twice");
}

TEST(Config, OtherMachinesNeedThePassword) {
  Config config;
  EXPECT_NE(check(config).message().find("--listen"), std::string_view::npos);
  for (const char* const local : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "unix:/tmp/a"}) {
    ASSERT_TRUE(parse_addresses(local, &config.listen).ok());
    EXPECT_TRUE(check(config).ok()) << local;
  }
  for (const char* const open : {"0.0.0.0:1", "[::]:1", "192.0.2.7:1", "127.0.0.1:1,192.0.2.7:2"}) {
    ASSERT_TRUE(parse_addresses(open, &config.listen).ok());
    config.password_file.clear();
    EXPECT_NE(check(config).message().find("add --password_file=FILE"), std::string_view::npos) << open;
    config.password_file = "file";
    EXPECT_TRUE(check(config).ok()) << open;
  }
}

TEST(Config, Bounds) {
  Config config;
  ASSERT_TRUE(parse_addresses("127.0.0.1:1", &config.listen).ok());
  Config wrong = config;
  wrong.threads = 0;
  EXPECT_TRUE(check(wrong).IsInvalidArgument());
  wrong = config;
  wrong.connections_max = 0;
  EXPECT_TRUE(check(wrong).IsInvalidArgument());
  wrong = config;
  wrong.reply_bytes_max = 1;
  EXPECT_TRUE(check(wrong).IsInvalidArgument());
  wrong = config;
  wrong.request_bytes_max = uint64_t{2} << 30;
  EXPECT_TRUE(check(wrong).IsInvalidArgument());
}

TEST(Config, PasswordFile) {
  const testing::TempFolder folder;
  std::optional<Password> password;
  EXPECT_NE(Password::load(folder.file("none"), &password).message().find("make it: (umask 077;"),
            std::string_view::npos);
  EXPECT_NE(Password::load(folder.path(), &password).message().find("is a folder"), std::string_view::npos);
  const std::string path = folder.write("password", "secret word\r\nsecond line\n");
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  EXPECT_NE(Password::load(path, &password).message().find("chmod 600"), std::string_view::npos);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  ASSERT_TRUE(Password::load(path, &password).ok());
  EXPECT_TRUE(password->is("secret word"));
  EXPECT_FALSE(password->is("secret wor"));
  EXPECT_FALSE(password->is(""));
  folder.write("password", "\n");
  EXPECT_TRUE(Password::load(path, &password).IsInvalidArgument());
}

Address at(const std::string& text) {
  std::vector<Address> addresses;
  EXPECT_TRUE(parse_addresses(text, &addresses).ok());
  return addresses.at(0);
}

TEST(Sockets, PortInUseNamesTheRemedy) {
  ListeningSocket first, second;
  ASSERT_TRUE(ListeningSocket::open(at("127.0.0.1:0"), &first).ok());
  ASSERT_NE(first.address().port, 0);
  const Status status = ListeningSocket::open(first.address(), &second);
  EXPECT_TRUE(status.IsBusy());
  EXPECT_NE(status.message().find("ss -ltnp 'sport = :" + std::to_string(first.address().port) + "'"),
            std::string_view::npos);
  EXPECT_NE(ListeningSocket::open(at("192.0.2.7:0"), &second).message().find("is no address of this machine"),
            std::string_view::npos);
}

TEST(Sockets, UnixFilesAreReplacedOnlyWhenNobodyAnswers) {
  const testing::TempFolder folder;
  const std::string path = folder.file("a.sock");
  {
    ListeningSocket first, second;
    ASSERT_TRUE(ListeningSocket::open(at("unix:" + path), &first).ok());
    EXPECT_TRUE(ListeningSocket::open(at("unix:" + path), &second).IsBusy());
    EXPECT_TRUE(std::filesystem::exists(path));
    std::filesystem::create_hard_link(path, folder.file("left"));  // as a killed server leaves it
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  ListeningSocket again;
  EXPECT_TRUE(ListeningSocket::open(at("unix:" + folder.file("left")), &again).ok());
  folder.write("file", "precious");
  EXPECT_TRUE(ListeningSocket::open(at("unix:" + folder.file("file")), &again).IsIoError());
  EXPECT_EQ(testing::read_file(folder.file("file")), "precious");
  EXPECT_TRUE(ListeningSocket::open(at("unix:" + folder.file("none/a")), &again).IsIoError());
}

}  // namespace
}  // namespace bonsai::server
