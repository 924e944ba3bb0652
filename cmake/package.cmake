# SPDX-License-Identifier: Apache-2.0
# `cpack --config build/release/CPackConfig.cmake` makes a Debian package of the files that `cmake --install` installs:
# the library, its headers, the programs. CTest `package` checks its content and builds a host program against it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME bonsai)
set(CPACK_PACKAGE_VENDOR "the Bonsai developers")
set(CPACK_PACKAGE_CONTACT "the Bonsai developers <bonsai@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_FILE ${PROJECT_SOURCE_DIR}/README.md)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # dpkg-shlibdeps determines the packages that the binaries need
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
include(CPack)

find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
if(BUILD_TESTING AND BONSAI_PROGRAMS AND NOT BONSAI_SANITIZE AND DPKG_SHLIBDEPS)
  add_test(NAME package COMMAND ${CMAKE_COMMAND} -D build=${CMAKE_BINARY_DIR} -D source=${PROJECT_SOURCE_DIR}
           -D cxx=${CMAKE_CXX_COMPILER} -P ${PROJECT_SOURCE_DIR}/cmake/package_test.cmake)
  set_tests_properties(package PROPERTIES TIMEOUT 720 LABELS build RESOURCE_LOCK package)
endif()
