# cmake --install puts the library, its headers, the program and a package for find_package(imka).
include(CMakePackageConfigHelpers)
install(TARGETS imka EXPORT imka_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY src/imka DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT imka_targets NAMESPACE imka:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/imka)
configure_package_config_file(cmake/imkaConfig.cmake.in imkaConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/imka)
write_basic_package_version_file(imkaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/imkaConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/imkaConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/imka)
if(IMKA_BUILD_APP)
    install(TARGETS imka_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
