# the first pure room brings the test of the check that keeps them pure
add_subdirectory(${CMAKE_SOURCE_DIR}/tests/purity ${CMAKE_BINARY_DIR}/tests/purity)
