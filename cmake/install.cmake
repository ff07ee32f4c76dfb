# cmake --install installs the library, its public headers, the program and a package for find_package(imka).
include(CMakePackageConfigHelpers)
install(TARGETS imka EXPORT imka_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Public headers are collected at install time, so a new include needs no reconfiguration.
install(CODE "
    include(${PROJECT_SOURCE_DIR}/cmake/public_headers.cmake)
    imka_public_headers(${PROJECT_SOURCE_DIR}/src headers)
    foreach(header \${headers})
        cmake_path(GET header PARENT_PATH folder)
        file(INSTALL DESTINATION \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/\${folder} FILES ${PROJECT_SOURCE_DIR}/src/\${header})
    endforeach()")
install(EXPORT imka_targets NAMESPACE imka:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/imka)
configure_package_config_file(cmake/imkaConfig.cmake.in imkaConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/imka)
write_basic_package_version_file(imkaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/imkaConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/imkaConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/imka)
if(IMKA_BUILD_APP)
    install(TARGETS imka_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    if(IMKA_HAVE_TORCH)
        install(TARGETS imka_train_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
endif()
