# SPDX-License-Identifier: Apache-2.0
# CTest `package`: makes the Debian package, unpacks it as dpkg would, runs its program and a host program built against
# it. As root it also checks by apt that all dependencies of the package are available. Arguments: build, source, cxx.
set(scratch ${build}/package-test)
file(REMOVE_RECURSE ${scratch} ${build}/package)
file(MAKE_DIRECTORY ${scratch})

# run(WHAT COMMAND...): fails the test with the output of the command; leaves the output in `output`.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${what} failed (${code}):\n${output}\n${errors}")
  endif()
  string(STRIP "${output}" output)
  set(output "${output}" PARENT_SCOPE)
endfunction()

run("cpack" cpack --config ${build}/CPackConfig.cmake -B ${build}/package)
file(GLOB package ${build}/package/*.deb)
run("dpkg-deb --info" dpkg-deb --info ${package})
foreach(wanted "Package: bonsai" "Depends: [^\n]*libpmem1" "Section: database")
  if(NOT output MATCHES "${wanted}")
    message(FATAL_ERROR "the package's description lacks '${wanted}':\n${output}")
  endif()
endforeach()
if(output MATCHES "Depends: [^\n]*libgtest")
  message(FATAL_ERROR "the package depends on what only tests need:\n${output}")
endif()

run("unpack" dpkg-deb --extract ${package} ${scratch}/root)
file(GLOB_RECURSE library ${scratch}/root/usr/*/libbonsai.so)
cmake_path(GET library PARENT_PATH library_folder)
set(ENV{LD_LIBRARY_PATH} ${library_folder})
run("bonsai version" ${scratch}/root/usr/bin/bonsai version)
run("bonsai put" ${scratch}/root/usr/bin/bonsai put --pool=${scratch}/pool --create --bytes=64M apple red)
run("bonsai get" ${scratch}/root/usr/bin/bonsai get --pool=${scratch}/pool apple)
if(NOT output STREQUAL "red")
  message(FATAL_ERROR "the installed program answers '${output}'")
endif()
run("build a host program" ${cxx} -std=c++20 ${source}/cmake/consumer/consumer.cc -I${scratch}/root/usr/include
    -L${library_folder} -lbonsai -o ${scratch}/consumer)
run("host program" ${scratch}/consumer ${scratch}/pool-consumer)

execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)
if(user STREQUAL "0")
  run("apt-get install --simulate" apt-get install --simulate --no-install-recommends ${package})
endif()
file(REMOVE_RECURSE ${scratch})
