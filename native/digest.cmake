# Write a digest of the kernels' sources: the SHA-256 of lines "name SHA-256", in the order of names.
# apportion/native.py does the same.
file(GLOB files RELATIVE ${SOURCE} ${SOURCE}/native/*.cpp ${SOURCE}/native/*.hpp)
list(APPEND files CMakeLists.txt)
list(SORT files COMPARE STRING)
set(lines "")
foreach(file IN LISTS files)
  file(SHA256 ${SOURCE}/${file} hash)
  string(APPEND lines "${file} ${hash}\n")
endforeach()
string(SHA256 digest "${lines}")
file(WRITE ${OUT} "constexpr const char* DIGEST = \"${digest}\";\n")
