// When a frame was: the names of files, which say it in most published sets.
#pragma once

#include <string>
#include <vector>

namespace petaflow::climate {

/// The moment that the name of a file says: "data-1996-06-05-02-1.h5" is "1996-06-05T06:00:00", as the fourth number
/// counts steps of three hours (DeepCAM, ClimateNet).  Empty where the name is another one.
std::string time_of_file(const std::string& path);

/// The files whose names say a moment from the day `from` to the day `to` ("1996-06-05"), both included; an empty day
/// sets no bound.  Throws a user error where a day is none, a name says no moment, or no file is left.
std::vector<std::string> files_between(const std::vector<std::string>& files, const std::string& from,
                                       const std::string& to);

}  // namespace petaflow::climate
