# SPDX-License-Identifier: Apache-2.0
# Adds the style test, and the tests of the scripts and of the Python package, to CTest. Not under sanitizers, where
# their results would be the same.
if(BUILD_TESTING AND NOT BONSAI_SANITIZE)
  add_test(NAME style COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/style.py)
  add_test(NAME scripts_test
           COMMAND ${Python3_EXECUTABLE} -m unittest discover -s ${PROJECT_SOURCE_DIR}/scripts -p *_test.py)
  set_tests_properties(style PROPERTIES TIMEOUT 720 LABELS style)
  set_tests_properties(scripts_test PROPERTIES TIMEOUT 720 LABELS scripts)
  add_test(NAME python_package_test
           COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/package_test.py ${CMAKE_BINARY_DIR})
  set_tests_properties(python_package_test PROPERTIES TIMEOUT 900 LABELS python SKIP_RETURN_CODE 77)
endif()
