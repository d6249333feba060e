find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBUV REQUIRED IMPORTED_TARGET libuv)
find_package(OpenSSL 3.0 REQUIRED)
target_link_libraries(braid_net PUBLIC PkgConfig::LIBUV OpenSSL::SSL OpenSSL::Crypto)
