# SPDX-License-Identifier: Apache-2.0
# CTest `build_options`: the tree configures without tests, without programs and without both, and then does not require
# packages that only they need. A build without programs can be installed. Arguments: build, source (folders), cxx
# (compiler).
set(scratch ${build}/options-test)
file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch})

# configure(NAME OPTION...): into ${scratch}/NAME; fails the test with the output.
function(configure name)
  execute_process(COMMAND ${CMAKE_COMMAND} -G Ninja -S ${source} -B ${scratch}/${name} -D CMAKE_CXX_COMPILER=${cxx}
                          -D BONSAI_WERROR=ON ${ARGN}
                  RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "the tree does not configure with ${ARGN}:\n${output}\n${errors}")
  endif()
endfunction()

# If a disabled package is required all the same, the configuration fails.
function(without out)
  set(disabled)
  foreach(package IN LISTS ARGN)
    list(APPEND disabled -D CMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
  endforeach()
  set(${out} ${disabled} PARENT_SCOPE)
endfunction()

without(no_test_packages GTest)
without(no_program_packages gflags TBB nlohmann_json)
configure(no-tests -D BUILD_TESTING=OFF ${no_test_packages})
configure(no-programs -D BONSAI_PROGRAMS=OFF ${no_program_packages})
without(no_zlib ZLIB)
configure(library -D BUILD_TESTING=OFF -D BONSAI_PROGRAMS=OFF ${no_test_packages} ${no_program_packages} ${no_zlib})

file(STRINGS ${scratch}/library/CMakeCache.txt cached)
foreach(package GLOG PROMETHEUS TOMLPLUSPLUS BENCH_ROCKSDB BENCH_LMDB)
  if(cached MATCHES "${package}_FOUND")
    message(FATAL_ERROR "${package} is looked for where the library alone is built")
  endif()
endforeach()
execute_process(COMMAND ninja -C ${scratch}/library -t query all store/all OUTPUT_VARIABLE made)
if(NOT made MATCHES "libbonsai\\.so" OR made MATCHES "test|bin/")
  message(FATAL_ERROR "the library alone is not what is built:\n${made}")
endif()

# Uses a library built elsewhere instead of building one here.
file(GLOB libraries ${build}/libbonsai.so*)
file(COPY ${libraries} DESTINATION ${scratch}/no-tests)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${scratch}/no-tests --prefix ${scratch}/prefix
                RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "without programs nothing can be installed:\n${output}\n${errors}")
endif()
file(GLOB_RECURSE installed RELATIVE ${scratch}/prefix ${scratch}/prefix/*)
if(NOT installed MATCHES "libbonsai.so.0" OR NOT installed MATCHES "bonsai/db.h" OR installed MATCHES "bin/")
  message(FATAL_ERROR "the library is not what was installed: ${installed}")
endif()
if(NOT output MATCHES "Not installed, since it is not built: bonsai-bench")
  message(FATAL_ERROR "what is left out is not named:\n${output}")
endif()
file(REMOVE_RECURSE ${scratch})
