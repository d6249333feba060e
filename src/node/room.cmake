find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(NODE_UV REQUIRED IMPORTED_TARGET libuv)
target_link_libraries(braid_node PUBLIC PkgConfig::NODE_UV Threads::Threads)
