# the first pure module also adds the tests of tools/check-pure
add_subdirectory(${CMAKE_SOURCE_DIR}/tests/purity ${CMAKE_BINARY_DIR}/tests/purity)
