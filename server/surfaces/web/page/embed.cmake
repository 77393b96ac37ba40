# Makes one page of index.html and the files that it names as {{FILE}}, and of that page a C++ source.
#   cmake -DPAGE=FOLDER [-DSHARED=FOLDER] -DOUTPUT=FILE.cc -DHEADER=FILE.h -DFUNCTION=NAMESPACE::NAME -P embed.cmake
# A file that is not in PAGE is in SHARED. The header declares the function, which returns an absl::string_view.
file(READ "${PAGE}/index.html" text)
string(REGEX MATCHALL "{{[a-z]+\\.(css|js)}}" marks "${text}")
foreach(mark IN LISTS marks)
  string(REGEX REPLACE "[{}]" "" name "${mark}")
  set(folder "${PAGE}")
  if(NOT EXISTS "${PAGE}/${name}")
    set(folder "${SHARED}")
  endif()
  file(READ "${folder}/${name}" part)
  string(REPLACE "${mark}" "${part}" text "${text}")
endforeach()
file(WRITE "${OUTPUT}.html" "${text}")
file(READ "${OUTPUT}.html" hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

absl::string_view ${FUNCTION}() {
  static constexpr unsigned char kText[] = {
${bytes}
  };
  return {reinterpret_cast<const char*>(kText), sizeof(kText)};
}
")
