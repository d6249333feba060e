# PCRE2 runs the regular expressions of pre-tokenizers; utf8proc has Unicode's normal forms.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
target_link_libraries(braid_text PUBLIC PkgConfig::PCRE2 PkgConfig::UTF8PROC)
# memmem
target_compile_definitions(braid_text PRIVATE _GNU_SOURCE)
