// Lists of files as people write them: names and glob patterns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace petaflow {

/// Order in which runs of digits count as numbers: chunk2 < chunk10.
bool natural_less(std::string_view a, std::string_view b);

/// Replaces each pattern (* ? [...] ~) by the files that match, in natural order.  Throws Error(kUser) where a pattern
/// matches nothing, a file is named twice, or the list is empty; `what` names the list in the sentence ("data.train").
std::vector<std::string> expand_files(const std::vector<std::string>& names, const std::string& what);

/// The files that both lists name, whatever the paths by which they do.  Does not mind files that are not there.
std::vector<std::string> common_files(const std::vector<std::string>& a, const std::vector<std::string>& b);

/// True where the last component of `path` matches the glob pattern.
bool name_matches(const std::string& pattern, const std::string& path);

}  // namespace petaflow
