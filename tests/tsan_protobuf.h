// Before all else in every file that is built with ThreadSanitizer: protobuf's map fields as
// Debian's library has them, which is built without it. Their header gives them two more members
// otherwise, and what the library then takes for a mutex is another member.
#pragma once

#include <string>  // what the standard library does for ThreadSanitizer stays

#undef __SANITIZE_THREAD__
#include <google/protobuf/map_field.h>
#define __SANITIZE_THREAD__ 1
