# SPDX-License-Identifier: Apache-2.0
# Fuzz targets (base/testing/fuzz.h). All are in two programs: fuzz_replay_test, an ordinary test of every build, and,
# in builds with BONSAI_FUZZ (preset clang), `fuzz`, which scripts/fuzz.py runs.
option(BONSAI_FUZZ "Instrument all code for libFuzzer and AddressSanitizer, and build fuzz (clang only)" OFF)
if(BONSAI_FUZZ)
  add_compile_options(-fsanitize=address,fuzzer-no-link)
  add_link_options(-fsanitize=address,fuzzer-no-link)
  target_compile_definitions(bonsai_options INTERFACE BONSAI_CORO_ASAN)
endif()

# bonsai_fuzz(NAME SOURCES file... LINKS target... [BY_NIGHT]): fuzz targets of one room. A source registers its targets
# by FuzzRegistration, so it is linked as an object. BY_NIGHT: by day only uninstrumented builds replay it.
function(bonsai_fuzz name)
  cmake_parse_arguments(FUZZ "BY_NIGHT" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${FUZZ_SOURCES})
  if(BUILD_TESTING)
    target_link_libraries(${name} PUBLIC ${FUZZ_LINKS} GTest::gtest PRIVATE bonsai_options)
  endif()
  target_compile_options(${name} PRIVATE ${BONSAI_TEST_OPTIONS})
  target_compile_definitions(${name} PRIVATE BONSAI_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT (FUZZ_BY_NIGHT AND BONSAI_BY_DAY))
    set_property(GLOBAL APPEND PROPERTY BONSAI_FUZZ_OBJECTS ${name})
  endif()
endfunction()

# The two programs; called once, after all rooms.
function(bonsai_fuzz_programs)
  get_property(objects GLOBAL PROPERTY BONSAI_FUZZ_OBJECTS)
  bonsai_test(fuzz_replay_test SOURCES fuzz_replay_test.cc LINKS ${objects} LABELS fuzz)
  target_compile_definitions(fuzz_replay_test PRIVATE BONSAI_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(BONSAI_FUZZ)
    add_executable(fuzz fuzz_main.cc)
    target_link_libraries(fuzz PRIVATE bonsai_options ${objects})
    target_link_options(fuzz PRIVATE -fsanitize=fuzzer)
    set_target_properties(fuzz PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endif()
endfunction()
