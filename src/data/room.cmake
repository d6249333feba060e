# zlib and zstd read compressed sources.
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
target_link_libraries(braid_data PUBLIC PkgConfig::ZLIB PkgConfig::ZSTD)
