// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/huge_range.h"
#include "base/nvm/racy_copy.h"
#include "base/nvm/testing.h"
#include "base/testing/temp_folder.h"
#include "base/units.h"

namespace bonsai::base {
namespace {

using nvm_testing::create;
using nvm_testing::in_child;
using nvm_testing::reopen;
using testing::TempFolder;

// Opens and returns the status as text; a mapping that opened is closed again.
std::string try_open(const std::string& path, const MappingOptions& options = {}) {
  std::unique_ptr<Mapping> mapping;
  return Mapping::open(path, options, &mapping).ToString();
}

std::string try_create(const std::string& path, uint64_t bytes) {
  MappingOptions options;
  options.create_bytes = bytes;
  return try_open(path, options);
}

void expect_says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

void write_file(const std::string& path, size_t bytes) { std::ofstream(path) << std::string(bytes, 'x'); }

class MappingOn : public ::testing::TestWithParam<bool> {
 protected:
  TempFolder dir_{GetParam() ? TempFolder::on_tmpfs() : TempFolder::on_disk()};
  std::string path_ = dir_.file("pool");
};

INSTANTIATE_TEST_SUITE_P(FileSystems, MappingOn, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Tmpfs" : "Disk"; });

TEST_P(MappingOn, CreatesZerosAndKeepsWhatIsStored) {
  {
    auto mapping = create(path_, 3 * kMiB);
    EXPECT_EQ(mapping->bytes(), 3 * kMiB);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(mapping->data()) % (2 * kMiB), 0U);
    EXPECT_EQ(std::count(mapping->data(), mapping->data() + mapping->bytes(), std::byte{0}),
              static_cast<ptrdiff_t>(3 * kMiB));
    std::memcpy(mapping->data() + 12345, "bonsai", 6);
    EXPECT_TRUE(mapping->sync().ok());
  }
  auto mapping = reopen(path_);
  EXPECT_EQ(mapping->bytes(), 3 * kMiB);
  EXPECT_EQ(std::memcmp(mapping->data() + 12345, "bonsai", 6), 0);
}

bool unnamed_files = true;  // whether the file system seems to have them

// It replaces no file, and a file that got no name leaves none; also where files cannot be made without a name.
TEST_P(MappingOn, ANewFileGetsItsNameLast) {
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) names.push_back(entry.path().filename());
    return names;
  };
  MappingOptions options;
  options.create_bytes = kMiB;
  options.name_later = true;
  for (const bool unnamed : {true, false}) {
    unnamed_files = unnamed;
    std::unique_ptr<Mapping> one, two;
    ASSERT_EQ("OK", Mapping::open(path_, options, &one).ToString());
    ASSERT_EQ("OK", Mapping::open(path_, options, &two).ToString());
    EXPECT_FALSE(exists(path_));
    EXPECT_EQ(files().size(), unnamed ? 0U : 2U);
    two.reset();
    EXPECT_EQ(files().size(), unnamed ? 0U : 1U);
    write_file(path_, 10);
    expect_says(one->take_name().ToString(), {"busy", path_.c_str()});
    EXPECT_EQ(std::filesystem::file_size(path_), 10U);
    EXPECT_EQ("OK", one->remove().ToString()) << "it has no such name";
    EXPECT_EQ(files(), std::vector<std::string>{"pool"});
    expect_says(try_open(path_, options), {"busy", "it exists"});
    std::filesystem::remove(path_);

    ASSERT_EQ("OK", Mapping::open(path_, options, &one).ToString());
    std::memcpy(one->data(), "seed", 4);
    ASSERT_EQ("OK", one->take_name().ToString());
    EXPECT_EQ("OK", one->take_name().ToString());
    EXPECT_EQ(files(), std::vector<std::string>{"pool"});
    expect_says(in_child([&] { return try_open(path_); }), {"busy"});
    one.reset();
    auto again = reopen(path_);
    EXPECT_EQ(std::memcmp(again->data(), "seed", 4), 0);
    std::filesystem::rename(path_, path_ + ".moved");
    write_file(path_, 10);
    expect_says(again->remove().ToString(), {"I/O error", "replaced"});
    EXPECT_EQ(std::filesystem::file_size(path_), 10U);
    for (const std::string& name : {path_, path_ + ".moved"}) std::filesystem::remove(name);
  }
  unnamed_files = true;
}

TEST_P(MappingOn, SpaceIsReallyAllocated) {
  auto mapping = create(path_, 4 * kMiB);
  struct stat info = {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, 4 * kMiB);
  EXPECT_EQ(info.st_mode & 0077U, 0U) << "other users must not read the pool";
}

// Bytes of the mapping at `data` that huge pages stand for. Touches all of it.
uint64_t huge_bytes(const Mapping& mapping) {
  uint64_t sum = 0;
  for (size_t at = 0; at < mapping.bytes(); at += 4096) sum += std::to_integer<uint64_t>(mapping.data()[at]);
  EXPECT_EQ(sum, 0U);
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<uintptr_t>(mapping.data()) << '-';
  std::ifstream maps("/proc/self/smaps");
  std::string word;
  bool found = false;
  while (maps >> word) {
    found = found || word.starts_with(begin.str());
    uint64_t kib = 0;
    if (found && word == "ShmemPmdMapped:" && maps >> kib) return kib << 10;
  }
  return 0;
}

// Whether this kernel makes a huge page of a small one when asked to.
bool kernel_collapses() {
  const int fd = ::memfd_create("probe", MFD_CLOEXEC);
  std::byte* const range = reserve_range(kHugePageBytes, kHugePageBytes);
  const bool mapped = fd >= 0 && ::ftruncate(fd, kHugePageBytes) == 0 && range != nullptr &&
                      ::mmap(range, kHugePageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == range;
  if (mapped) *range = std::byte{1};
  const bool collapsed = mapped && ::madvise(range, kHugePageBytes, MADV_COLLAPSE) == 0;
  if (range != nullptr) ::munmap(range, kHugePageBytes);
  ::close(fd);
  return collapsed;
}

TEST(MappingOnTmpfs, HasHugePages) {
  if (!kernel_collapses()) GTEST_SKIP() << "the kernel has no MADV_COLLAPSE for tmpfs: Linux 6.1 or later has";
  const TempFolder dir = TempFolder::on_tmpfs();
  const std::string path = dir.file("pool");
  {
    auto mapping = create(path, 9 * kMiB);
    EXPECT_EQ(huge_bytes(*mapping), 8 * kMiB) << "the rest is less than a page";
  }
  EXPECT_EQ(huge_bytes(*reopen(path)), 8 * kMiB);
  MappingOptions options;
  options.grow_bytes = 16 * kMiB;
  std::unique_ptr<Mapping> mapping;
  ASSERT_TRUE(Mapping::open(path, options, &mapping).ok());
  EXPECT_EQ(huge_bytes(*mapping), 14 * kMiB) << "what had small pages keeps them";
}

TEST_P(MappingOn, SizesAreWholePages) {
  EXPECT_EQ(create(path_, 5000)->bytes(), 8192U);
  EXPECT_EQ(reopen(path_)->bytes(), 8192U);
}

TEST_P(MappingOn, SmallestSizeWorks) {
  { auto mapping = create(path_, kMappingBytesMin); }
  EXPECT_EQ(reopen(path_)->bytes(), kMappingBytesMin);
}

TEST_P(MappingOn, ReadOnlySeesTheBytesAndSharesTheLock) {
  std::memcpy(create(path_, kMiB)->data(), "seed", 4);
  MappingOptions options;
  options.read_only = true;
  std::unique_ptr<Mapping> one, two;
  ASSERT_TRUE(Mapping::open(path_, options, &one).ok());
  ASSERT_TRUE(Mapping::open(path_, options, &two).ok());
  EXPECT_EQ(std::memcmp(one->data(), "seed", 4), 0);
  EXPECT_TRUE(one->read_only());
  expect_says(try_open(path_), {"busy", path_.c_str()});  // a writer has to wait for the readers
}

TEST_P(MappingOn, AnOwnCopyChangesNoByteOfTheFile) {
  std::memcpy(create(path_, kMiB)->data(), "seed", 4);
  MappingOptions options;
  options.own_copy = true;
  expect_says(try_open(path_, options), {"invalid argument", "read-only"});
  options.read_only = true;
  std::unique_ptr<Mapping> own, other;
  ASSERT_TRUE(Mapping::open(path_, options, &own).ok());
  std::memcpy(own->data(), "mine", 4);
  own->data()[kMiB - 1] = std::byte{1};
  EXPECT_TRUE(own->sync().ok());
  options.own_copy = false;
  ASSERT_TRUE(Mapping::open(path_, options, &other).ok());
  EXPECT_EQ(std::memcmp(other->data(), "seed", 4), 0);
  EXPECT_EQ(std::memcmp(own->data(), "mine", 4), 0);
  own.reset();
  other.reset();
  EXPECT_EQ(std::memcmp(reopen(path_)->data(), "seed", 4), 0);
  EXPECT_EQ(reopen(path_)->data()[kMiB - 1], std::byte{0});
}

TEST_P(MappingOn, SecondProcessIsBusy) {
  auto mapping = create(path_, kMiB);
  expect_says(in_child([&] { return try_open(path_); }), {"busy", path_.c_str(), "another process"});
  MappingOptions options;
  options.read_only = true;
  expect_says(in_child([&] { return try_open(path_, options); }), {"busy"});
  options.lock = false;
  EXPECT_EQ(in_child([&] { return try_open(path_, options); }), "OK");
  mapping.reset();
  EXPECT_EQ(in_child([&] { return try_open(path_); }), "OK");
}

TEST_P(MappingOn, LockDiesWithItsProcess) {
  { auto mapping = create(path_, kMiB); }
  EXPECT_EQ(in_child([&]() -> std::string {
              auto mapping = reopen(path_);
              ::raise(SIGKILL);
              return "not reached";
            }),
            "died");
  EXPECT_EQ(try_open(path_), "OK");
}

TEST(Mark, IsTheFirstWordWithNothingAfterTheFirstPage) {
  constexpr uint64_t kMark = 0x1122334455667788;
  std::vector<std::byte> first(2 * kPageBytes);
  EXPECT_FALSE(is_marked(first, kMark));
  std::memcpy(first.data(), &kMark, sizeof kMark);
  EXPECT_TRUE(is_marked(first, kMark));
  EXPECT_FALSE(is_marked(first, kMark + 1));
  first[sizeof kMark] = first[kPageBytes - 1] = std::byte{1};
  EXPECT_TRUE(is_marked(first, kMark)) << "what is created is being written";
  for (const size_t at : {kPageBytes, 2 * kPageBytes - 1}) {
    first[at] = std::byte{1};
    EXPECT_FALSE(is_marked(first, kMark)) << at;
    first[at] = std::byte{0};
  }
  EXPECT_FALSE(is_marked(std::span(first).first(2 * kPageBytes - 1), kMark)) << "too few bytes to know";
  EXPECT_FALSE(is_marked({}, kMark));
}

TEST_P(MappingOn, MissingFileSaysHowToCreateIt) {
  expect_says(try_open(path_), {"I/O error", path_.c_str(), "--create", "create_if_missing"});
  EXPECT_FALSE(exists(path_));
}

TEST_P(MappingOn, CreatingOverAFileLeavesItAlone) {
  write_file(path_, 5000);
  expect_says(try_create(path_, kMiB), {"busy", path_.c_str(), "exists"});
  EXPECT_EQ(std::filesystem::file_size(path_), 5000U);
}

TEST_P(MappingOn, MissingDirectory) {
  expect_says(try_create(dir_.file("no/pool"), kMiB), {"I/O error", "no directory", "mkdir -p"});
  write_file(path_, 5000);
  expect_says(try_create(path_ + "/pool", kMiB), {"I/O error", "not a directory"});
}

TEST_P(MappingOn, DirectoryInsteadOfAFile) {
  expect_says(try_open(dir_.path()), {"I/O error", "name a file in that directory"});
  MappingOptions options;
  options.read_only = true;
  expect_says(try_open(dir_.path(), options), {"I/O error", "name a file in that directory"});
}

TEST_P(MappingOn, AnExistingFileGrowsAndKeepsItsBytes) {
  std::memcpy(create(path_, kMiB)->data(), "seed", 4);
  MappingOptions options;
  options.grow_bytes = 3 * kMiB;
  std::unique_ptr<Mapping> mapping;
  ASSERT_TRUE(Mapping::open(path_, options, &mapping).ok());
  EXPECT_EQ(mapping->bytes(), 3 * kMiB);
  EXPECT_EQ(std::memcmp(mapping->data(), "seed", 4), 0);
  EXPECT_EQ(mapping->data()[3 * kMiB - 1], std::byte{0});
  expect_says(try_open(path_, options), {"busy"});
  mapping.reset();
  options.grow_bytes = 2 * kMiB;
  ASSERT_TRUE(Mapping::open(path_, options, &mapping).ok());
  EXPECT_EQ(mapping->bytes(), 3 * kMiB) << "no file shrinks";
}

TEST_P(MappingOn, AGrowthThatFailsKeepsTheSize) {
  { auto mapping = create(path_, kMiB); }
  MappingOptions options;
  options.grow_bytes = uint64_t{1} << 42;
  expect_says(try_open(path_, options), {"no space", path_.c_str(), "smaller"});
  EXPECT_EQ(std::filesystem::file_size(path_), kMiB);
  options.grow_bytes = 3 * kMiB;
  const std::string limited = in_child([&] {
    const rlimit limit = {2 * kMiB, 2 * kMiB};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return try_open(path_, options);
  });
  expect_says(limited, {"no space", "ulimit -f"});
  EXPECT_EQ(std::filesystem::file_size(path_), kMiB);
  options.read_only = true;
  expect_says(try_open(path_, options), {"invalid argument", "read-only"});
}

TEST_P(MappingOn, TooSmallFile) {
  write_file(path_, 100);
  expect_says(try_open(path_), {"corruption", path_.c_str(), "100 bytes"});
  write_file(path_, 0);
  expect_says(try_open(path_), {"corruption", "0 bytes"});
}

TEST_P(MappingOn, BadOptions) {
  expect_says(try_open(""), {"invalid argument", "empty"});
  expect_says(try_create(path_, 1), {"invalid argument", "at least 4096"});
  expect_says(try_create(path_, UINT64_MAX), {"invalid argument"});
  MappingOptions options;
  options.create_bytes = kMiB;
  options.read_only = true;
  expect_says(try_open(path_, options), {"invalid argument", "read-only"});
  EXPECT_FALSE(exists(path_));
}

TEST_P(MappingOn, NoSpaceRemovesTheFile) {
  expect_says(try_create(path_, uint64_t{1} << 42), {"no space", path_.c_str(), "smaller"});
  EXPECT_FALSE(exists(path_));
}

TEST_P(MappingOn, FileSizeLimitIsAnErrorNotASignal) {
  const std::string text = in_child([&] {
    const rlimit limit = {kMiB, kMiB};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return try_create(path_, 2 * kMiB);
  });
  expect_says(text, {"no space", "ulimit -f"});
  EXPECT_FALSE(exists(path_));
}

TEST_P(MappingOn, NoDescriptorLeft) {
  const std::string text = in_child([&] {
    const rlimit limit = {3, 3};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    return try_create(path_, kMiB);
  });
  expect_says(text, {"I/O error", "ulimit -n"});
}

// Sanitizers need address space of their own, so the limit would hit them first.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_P(MappingOn, NoAddressSpaceLeft) {
  const std::string text = in_child([&] {
    const rlimit limit = {256 * kMiB, 256 * kMiB};
    ::setrlimit(RLIMIT_AS, &limit);
    return try_create(path_, 300 * kMiB);
  });
  expect_says(text, {"I/O error", "map 314572800 bytes", "ulimit -v"});
  EXPECT_FALSE(exists(path_));
}
#endif

TEST_P(MappingOn, NotPermitted) {
  { auto mapping = create(path_, kMiB); }
  const auto as_nobody = [&](const std::function<std::string()>& body) {
    return in_child([&]() -> std::string {
      if (::geteuid() == 0 && ::setuid(65534) != 0) return "cannot change user";
      return body();
    });
  };
  ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0555), 0);
  expect_says(as_nobody([&] { return try_open(path_); }), {"I/O error", path_.c_str(), "chmod"});
  expect_says(as_nobody([&] { return try_create(dir_.file("new"), kMiB); }), {"I/O error", "chmod"});
  // Readable, not writable: opens for reading only.
  ASSERT_EQ(::chmod(path_.c_str(), 0444), 0);
  expect_says(as_nobody([&] { return try_open(path_); }), {"I/O error", "chmod"});
  MappingOptions options;
  options.read_only = true;
  EXPECT_EQ(as_nobody([&] { return try_open(path_, options); }), "OK");
  options.own_copy = true;
  EXPECT_EQ(as_nobody([&] { return try_open(path_, options); }), "OK");
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
}

TEST_P(MappingOn, DevicesAndPipesAreRefused) {
  expect_says(try_open("/dev/null"), {"not supported", "DAX device"});
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_says(try_open(path_), {"not supported", path_.c_str()});
}

TEST_P(MappingOn, DescribesFilesThatExistAndOnesThatDoNot) {
  std::string planned, real;
  ASSERT_TRUE(describe_medium(path_, PersistenceDomain::kAuto, &planned).ok());
  EXPECT_FALSE(exists(path_));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  auto mapping = create(path_, kMiB);
  ASSERT_TRUE(describe_medium(path_, PersistenceDomain::kAuto, &real).ok());
  EXPECT_EQ(planned, real);
  EXPECT_EQ(real, mapping->text());
  if (GetParam()) {
    EXPECT_EQ(mapping->kind(), MediumKind::kTmpfs);
    EXPECT_EQ(real, "tmpfs (emulated NVM), flush " + std::string(flush_instruction_name()) + ", domain ADR");
  }
  ASSERT_TRUE(describe_medium(path_, PersistenceDomain::kEadr, &real).ok());
  expect_says(real, {"domain eADR"});
  EXPECT_FALSE(describe_medium(dir_.file("no/pool"), PersistenceDomain::kAuto, &real).ok());
  EXPECT_FALSE(describe_medium(dir_.path(), PersistenceDomain::kAuto, &real).ok());
  EXPECT_FALSE(describe_medium("/dev/null", PersistenceDomain::kAuto, &real).ok());
}

TEST(MediumKinds, DomainIsTheDeclaredOneOrAdr) {
  EXPECT_EQ(resolve_domain(MediumKind::kTmpfs, PersistenceDomain::kAuto), PersistenceDomain::kAdr);
  EXPECT_EQ(resolve_domain(MediumKind::kTmpfs, PersistenceDomain::kEadr), PersistenceDomain::kEadr);
  EXPECT_EQ(resolve_domain(MediumKind::kDevdax, PersistenceDomain::kAdr), PersistenceDomain::kAdr);
  EXPECT_NE(resolve_domain(MediumKind::kFsdax, PersistenceDomain::kAuto), PersistenceDomain::kAuto);
}

TEST(MediumKinds, OnlyDaxIsNotEmulated) {
  EXPECT_FALSE(is_emulated(MediumKind::kDevdax));
  EXPECT_FALSE(is_emulated(MediumKind::kFsdax));
  EXPECT_TRUE(is_emulated(MediumKind::kTmpfs));
  EXPECT_TRUE(is_emulated(MediumKind::kHugetlb));
  EXPECT_TRUE(is_emulated(MediumKind::kFile));
  expect_says(describe_medium(MediumKind::kDevdax, PersistenceDomain::kEadr), {"devdax (NVM), no flush, domain eADR"});
  expect_says(describe_medium(MediumKind::kFile, PersistenceDomain::kAdr),
              {"plain file (emulated NVM)", "msync (slow)"});
}

TEST(MediumKinds, FlushInstructionFollowsTheEnvironmentOfLibpmem) {
  const auto name_without = [](const char* variable) {
    return in_child([=] {
      ::setenv(variable, "1", 1);
      return std::string(flush_instruction_name());
    });
  };
  EXPECT_NE(name_without("PMEM_NO_CLWB"), "clwb");
  EXPECT_NE(name_without("PMEM_NO_CLFLUSHOPT"), "clflushopt");
}

}  // namespace
}  // namespace bonsai::base

// In place of the library's: as if files without a name could not be named later.
extern "C" int access(const char* path, int mode) noexcept {
  if (!bonsai::base::unnamed_files && std::string_view(path).starts_with("/proc/self/fd/")) {
    errno = ENOENT;
    return -1;
  }
  return ::faccessat(AT_FDCWD, path, mode, 0);
}
