# SPDX-License-Identifier: Apache-2.0
# Common rules of the build: language, warnings, output folders of programs, and the functions that rooms use:
# bonsai_room, bonsai_test. The closing checks are in cmake/registration.cmake and cmake/install.cmake.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

option(BONSAI_PROGRAMS "The programs bonsai, bonsaid and bonsai-bench, beside the library" ON)
option(BONSAI_WERROR "Warnings are errors" OFF)
set(BONSAI_SANITIZE "" CACHE STRING "Sanitizers of the whole build: empty, thread, or address,undefined")
option(BONSAI_CHECKED "Checks of whole structures, too: BONSAI_SLOW_INVARIANT (base/check.h)" OFF)
option(BONSAI_STUDIES "bonsai-bench with bench/studies: the commands experiment, fabric and sweep" OFF)
set(BONSAI_TIMEOUT_SCALE 1 CACHE STRING "Factor on the time limit of every test (scripts/nightly.sh raises it)")
if((BONSAI_SANITIZE OR BONSAI_FUZZ) AND NOT BONSAI_TIMEOUT_SCALE GREATER 1)
  set(BONSAI_BY_DAY TRUE)  # BY_NIGHT tests are left out, and targets that only they need are not built
endif()

find_program(MOLD_PROGRAM mold)  # a linker that takes a quarter of the time
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  # Without this, ccache skips every source that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

include(CTest)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Boost REQUIRED COMPONENTS context)
find_package(absl REQUIRED)
pkg_check_modules(PMEM REQUIRED IMPORTED_TARGET libpmem)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(XXHASH REQUIRED libxxhash) # only its header is used
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(IBVERBS IMPORTED_TARGET libibverbs)
pkg_check_modules(RDMACM IMPORTED_TARGET librdmacm)
if(BONSAI_PROGRAMS)
  find_package(gflags REQUIRED)
  find_package(TBB REQUIRED COMPONENTS tbbmalloc)
  find_package(nlohmann_json REQUIRED)
  pkg_check_modules(GLOG REQUIRED IMPORTED_TARGET libglog)
  pkg_check_modules(TOMLPLUSPLUS REQUIRED IMPORTED_TARGET tomlplusplus)
  pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
  pkg_check_modules(SYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
endif()
if(BUILD_TESTING OR (BONSAI_PROGRAMS AND BONSAI_STUDIES))
  find_package(Python3 REQUIRED COMPONENTS Interpreter)  # cmake/mutants.cmake
endif()
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  pkg_check_modules(HIREDIS REQUIRED hiredis)  # its definitions do not fit the precompiled header
  find_package(ZLIB REQUIRED)  # golden pools are kept as gzip files
endif()

add_library(bonsai_options INTERFACE)
target_include_directories(bonsai_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(bonsai_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align -Wundef)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(bonsai_options INTERFACE -Wno-restrict)  # GCC 12 warns of std::string's own code (PR105651)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_UNITY_BUILD)
  target_compile_options(bonsai_options INTERFACE -Wno-subobject-linkage)  # it mistakes the sources for headers
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(bonsai_options INTERFACE -march=x86-64-v2)  # SSE4.2: every processor since 2009
endif()
if(BONSAI_WERROR)
  target_compile_options(bonsai_options INTERFACE -Werror)
endif()
if(BONSAI_CHECKED)
  target_compile_definitions(bonsai_options INTERFACE BONSAI_CHECKED)
endif()
if(BONSAI_SANITIZE)
  # Options of folders come before those of targets, so targets can override them.
  add_compile_options(-fsanitize=${BONSAI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(BONSAI_SANITIZE MATCHES undefined AND BONSAI_BY_DAY)
    # These checks run at each use of a pointer and take a third of this build's time. What they find, AddressSanitizer
    # finds at the access to memory, too, but for misaligned words. At night the libraries have them.
    add_compile_options(-fno-sanitize=null,vptr,pointer-overflow,object-size,alignment)
  endif()
  add_link_options(-fsanitize=${BONSAI_SANITIZE})
  # Sanitizers are informed of coroutine switches (base/coro/sanitizers.h).
  if(BONSAI_SANITIZE MATCHES address)
    target_compile_definitions(bonsai_options INTERFACE BONSAI_CORO_ASAN)
  endif()
  if(BONSAI_SANITIZE MATCHES thread)
    target_compile_definitions(bonsai_options INTERFACE BONSAI_CORO_TSAN)
  endif()
endif()

# The switch itself is not instrumented (see base/coro/fiber.cc). Source properties are per directory: call this in each
# directory that compiles the file.
function(bonsai_leave_switch_uninstrumented)
  if(BONSAI_SANITIZE OR BONSAI_FUZZ)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/base/coro/fiber.cc PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
  endif()
endfunction()

# bonsai_room(NAME SOURCES file... LINKS target... [COLD] [REGISTERS]): the static library bonsai_NAME of one room.
# COLD: its own code takes little time compared with the functions that it calls. Sanitizer builds, where optimisation
# takes most of the time, do not optimise it. REGISTERS: its files add entries to lists by themselves
# (bench/registered.h), so a program that uses it links all of it.
function(bonsai_room name)
  cmake_parse_arguments(ROOM "COLD;REGISTERS" "" "SOURCES;LINKS" ${ARGN})
  add_library(bonsai_${name} STATIC ${ROOM_SOURCES})
  set_target_properties(bonsai_${name} PROPERTIES EXCLUDE_FROM_ALL "${BONSAI_BY_DAY}")
  if(ROOM_REGISTERS)  # its objects, among which CMake counts a precompiled header, before the libraries that they use
    target_link_libraries(bonsai_${name} INTERFACE $<FILTER:$<TARGET_OBJECTS:bonsai_${name}>,EXCLUDE,gch$>)
  endif()
  target_link_libraries(bonsai_${name} PUBLIC ${ROOM_LINKS} PRIVATE bonsai_options)
  target_include_directories(bonsai_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  if(ROOM_COLD AND BONSAI_SANITIZE)
    target_compile_options(bonsai_${name} PRIVATE -O0)
  endif()
endfunction()

# bonsai_shared_library(NAME OUTPUT name ROOM room EXPORTS file LINKS target...): one shared object of all of a room and
# of what it uses of others. It exports only what `file`, a version script, lists. So names of the rooms and of their
# dependencies do not leak into a program that links it, which may have copies of its own.
function(bonsai_shared_library name)
  cmake_parse_arguments(LIBRARY "" "OUTPUT;ROOM;EXPORTS" "LINKS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "// The code comes from the room libraries.\n")
  add_library(${name} SHARED ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE bonsai_options $<LINK_LIBRARY:WHOLE_ARCHIVE,${LIBRARY_ROOM}> ${LIBRARY_LINKS})
  set_target_properties(${name} PROPERTIES
    OUTPUT_NAME ${LIBRARY_OUTPUT} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${LIBRARY_ROOM}" LINK_DEPENDS ${LIBRARY_EXPORTS})
  if(BONSAI_SANITIZE)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  target_link_options(${name} PRIVATE -Wl,--version-script=${LIBRARY_EXPORTS})
endfunction()

# A test's own sources are compiled with little optimisation: with -O3 they take half of the build's time, and the code
# under test is in the libraries.
set(BONSAI_TEST_OPTIONS $<$<CONFIG:RelWithDebInfo>:-O1>)
if(BONSAI_SANITIZE)
  list(APPEND BONSAI_TEST_OPTIONS -O0)
  if(BONSAI_SANITIZE MATCHES undefined AND BONSAI_BY_DAY)
    list(APPEND BONSAI_TEST_OPTIONS -fno-sanitize=undefined)  # which takes a quarter of a test's compile time
  elseif(BONSAI_SANITIZE MATCHES undefined)
    list(APPEND BONSAI_TEST_OPTIONS -fno-sanitize=null,vptr)  # they double it
  endif()
endif()

if(BUILD_TESTING)
  add_library(bonsai_test_main STATIC ${PROJECT_SOURCE_DIR}/base/testing/main.cc)
  target_link_libraries(bonsai_test_main PRIVATE bonsai_options GTest::gtest
    absl::failure_signal_handler absl::symbolize)
endif()

# A precompiled header of GoogleTest and the headers that it includes, for all test programs. Not under clang, because
# the clang regime checks that every test includes what it uses.
if(BUILD_TESTING AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cc CONTENT "int main() {}\n")
  add_executable(bonsai_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/test_headers.cc)
  set_target_properties(bonsai_test_headers PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(bonsai_test_headers PRIVATE bonsai_options GTest::gtest)
  target_precompile_headers(bonsai_test_headers PRIVATE <gtest/gtest.h>)
  target_compile_options(bonsai_test_headers PRIVATE ${BONSAI_TEST_OPTIONS})
endif()

# The rules for every test program. Without BUILD_TESTING it is defined, with its sources only, but neither built nor
# run. A build for the fuzzer compiles it, for the compiler's warnings, and neither instruments nor links it. The time
# limit ends what hangs, and judges nothing: four times TIMEOUT, which a quiet machine of two cores keeps. It grows with
# the regime (a sanitizer slows a test several times) and with BONSAI_TIMEOUT_SCALE. Reads the values
# SOURCES LINKS LABELS ENVIRONMENT TIMEOUT and LEFT_OUT (cases that this build leaves out) as TEST_* from the caller.
macro(bonsai_add_test_program name)
  if(NOT BUILD_TESTING)
    add_library(${name} OBJECT ${TEST_SOURCES})
  elseif(BONSAI_FUZZ)
    add_library(${name} OBJECT ${TEST_SOURCES})
    target_compile_options(${name} PRIVATE -fno-sanitize=all)
  else()
    add_executable(${name} ${TEST_SOURCES})
  endif()
  if(BUILD_TESTING)
    target_link_libraries(${name} PRIVATE bonsai_options ${TEST_LINKS})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT BUILD_TESTING OR "*" IN_LIST TEST_LEFT_OUT)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  elseif(NOT BONSAI_FUZZ)
    if(NOT TEST_TIMEOUT)
      set(TEST_TIMEOUT 120)
    endif()
    math(EXPR TEST_TIMEOUT "4 * ${TEST_TIMEOUT} * ${BONSAI_TIMEOUT_SCALE}")
    if(BONSAI_SANITIZE)
      math(EXPR TEST_TIMEOUT "${TEST_TIMEOUT} * 3")
    endif()
    set(cases)
    if(TEST_LEFT_OUT)
      list(JOIN TEST_LEFT_OUT ":" cases)
      set(cases --gtest_filter=-${cases})
    endif()
    add_test(NAME ${name} COMMAND ${name} --gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml ${cases})
    # CTest starts tests with the highest cost first, so that no long test runs alone at the end.
    set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT} COST ${TEST_TIMEOUT} LABELS "${TEST_LABELS}"
                         ENVIRONMENT "${TEST_ENVIRONMENT}")
  endif()
endmacro()

# bonsai_test(NAME SOURCES file... LINKS target... [LABELS label...] [ENVIRONMENT VAR=value...] [TIMEOUT seconds]
#             [ONE_THREAD pattern...] [BY_NIGHT pattern...] [LONG pattern...] [MEDIA medium[:night][:tsan]...]):
# a GoogleTest program, one CTest test. Patterns of cases are those of --gtest_filter; `*` stands for the whole program.
# ONE_THREAD: cases that never have two active threads. ThreadSanitizer would find nothing in them, so its builds leave
# them out. BY_NIGHT: cases that sanitizers run only by night. LONG: cases of a minute and more, which every build runs
# only by night.
# MEDIA: the media far, shm and striped add tests NAME_far, NAME_shm and NAME_striped, which run all cases with small
# budgets on far media, on a node that serves its pools and on striped pools (base/testing/far.h). `:night`: every build
# runs that test only by night. Under ThreadSanitizer it runs only by night, too, unless the medium has `:tsan`.
# scripts/test.sh counts its cases in the XML that it writes to test-results/. Figures and budgets:
# base/testing/figures.h and budget.h; docs/testing.md explains both.
function(bonsai_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT" "SOURCES;LINKS;LABELS;ENVIRONMENT;ONE_THREAD;BY_NIGHT;LONG;MEDIA" ${ARGN})
  if(TEST_UNPARSED_ARGUMENTS)
    message(SEND_ERROR "bonsai_test(${name}) does not know: ${TEST_UNPARSED_ARGUMENTS}")
  endif()
  set(TEST_LEFT_OUT)
  if(BONSAI_SANITIZE MATCHES thread)
    list(APPEND TEST_LEFT_OUT ${TEST_ONE_THREAD})
  endif()
  if(BONSAI_BY_DAY)
    list(APPEND TEST_LEFT_OUT ${TEST_BY_NIGHT})
  endif()
  if(NOT BONSAI_TIMEOUT_SCALE GREATER 1)
    list(APPEND TEST_LEFT_OUT ${TEST_LONG})
  endif()
  bonsai_add_test_program(${name})
  if(BUILD_TESTING)
    set(media ${TEST_MEDIA})
    if(NOT BONSAI_TIMEOUT_SCALE GREATER 1)
      list(FILTER media EXCLUDE REGEX ":night")
    endif()
    if(BONSAI_BY_DAY AND BONSAI_SANITIZE MATCHES thread)
      list(FILTER media INCLUDE REGEX ":tsan")
    elseif(BONSAI_BY_DAY)
      list(FILTER media EXCLUDE REGEX "^(shm|striped)")
    endif()
    list(TRANSFORM media REPLACE ":.*" "")
    foreach(medium IN LISTS media)
      if(TEST ${name})
        set(again ${name}_${medium})
        # Each round trip to a node waits until both processes have had a processor. With few processors this takes
        # three times as long.
        math(EXPR limit "3 * ${TEST_TIMEOUT}")
        set(results --gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${again}.xml)
        add_test(NAME ${again} COMMAND ${name} ${results} ${cases})
        set_tests_properties(${again} PROPERTIES TIMEOUT ${limit} COST ${TEST_TIMEOUT} LABELS "${TEST_LABELS}"
                             ENVIRONMENT "BONSAI_TEST_MEDIUM=${medium};BONSAI_TEST_BUDGET=fast;${TEST_ENVIRONMENT}")
      endif()
    endforeach()
    target_link_libraries(${name} PRIVATE GTest::gtest bonsai_test_main)
    target_compile_options(${name} PRIVATE ${BONSAI_TEST_OPTIONS})
    if(TARGET bonsai_test_headers)
      target_precompile_headers(${name} REUSE_FROM bonsai_test_headers)
      # The first option is for ccache. The second: GCC 12 warns of std::string's own code (as above, PR105651) once it
      # is precompiled.
      target_compile_options(${name} PRIVATE -fpch-preprocess -Wno-stringop-overflow -Wno-array-bounds)
    endif()
  endif()
endfunction()
