#include "io/hdf5.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fmt/ranges.h>

#include "io/atomic_file.hpp"
#include "io/hdf5_handle.hpp"
#include "io/missing_file.hpp"

#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 11, 0))
#define PETAFLOW_HDF5_LOCKING_IS_A_PROPERTY
#endif

namespace petaflow {

using hdf5::check;
using hdf5::Handle;
using hdf5::Lock;

namespace hdf5 {

namespace {

// A driver's words on a failed call, without its addresses: "file write failed: time = ..., error message = 'No space
// left on device', buf = 0x..." becomes "file write failed (No space left on device)".
std::string brief(const std::string& description) {
  const std::size_t details = description.find(": time = ");
  if (details == std::string::npos) return description;
  constexpr std::string_view kMessage = "error message = '";
  const std::size_t found = description.find(kMessage);
  if (found == std::string::npos) return description.substr(0, details);
  const std::size_t begin = found + kMessage.size();
  return fmt::format("{} ({})", description.substr(0, details),
                     description.substr(begin, description.find('\'', begin) - begin));
}

}  // namespace

std::string error_text() {
  std::vector<std::string> all;
  const auto add = [](unsigned, const H5E_error2_t* error, void* to) -> herr_t {
    auto& out = *static_cast<std::vector<std::string>*>(to);
    if (error->desc == nullptr || *error->desc == '\0') return 0;
    const std::string text = brief(error->desc);
    if (text != error->desc) out.assign(1, text);
    if (std::ranges::find(out, text) == out.end()) out.push_back(text);
    return text == error->desc ? 0 : 1;  // the system's own words say it all
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, add, &all);
  return all.empty() ? "no reason given" : fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace hdf5

namespace {

/// The first characters of every HDF5 file, at 0 or, behind a user block, at 512, 1024, 2048, ...
bool has_signature(int descriptor, std::int64_t size) {
  constexpr unsigned char kSignature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  unsigned char found[8];
  for (std::int64_t at = 0; at + 8 <= size; at = at == 0 ? 512 : 2 * at) {
    if (pread(descriptor, found, 8, at) == 8 && std::memcmp(found, kSignature, 8) == 0) return true;
  }
  return false;
}

std::atomic<bool> locking = true;

/// How files are opened and made.  Locking is a property of each file since HDF5 1.10.7 and 1.12.1.
Handle file_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#ifdef PETAFLOW_HDF5_LOCKING_IS_A_PROPERTY
  H5Pset_file_locking(access, locking, true);  // a file system that says it has no flock (ENOSYS) is no error
#endif
  return access;
}

/// Where HDF5 could not lock a file.
void refuse_locked(const std::string& path) {
  const std::string reason = hdf5::error_text();
  if (reason.find("unable to lock") == std::string::npos) return;
  user_error(
      "{} cannot be locked: another program has it open, or its file system has no locks; data.hdf5_locking = false "
      "opens it without (for commands that take no options: HDF5_USE_FILE_LOCKING=FALSE in the environment) (HDF5: {})",
      path, reason);
}

/// Why HDF5 would not open a file that has its signature.
[[noreturn]] void refuse(const std::string& path, std::int64_t size) {
  refuse_locked(path);
  const std::string reason = hdf5::error_text();
  unsigned long long expected = 0;
  if (const char* at = std::strstr(reason.c_str(), "stored_eof = "); at != nullptr) {
    std::sscanf(at, "stored_eof = %llu", &expected);
  }
  if (expected > static_cast<unsigned long long>(size)) {
    user_error("{} is truncated: it has {} of {} bytes; copy it again", path, size, expected);
  }
  user_error("{} is truncated or damaged: HDF5 cannot open its {} bytes (HDF5: {})", path, size, reason);
}

/// Calls use(name, id) for each object directly in `group`.
template <typename Use>
void for_each_object(hid_t group, Use&& use) {
  H5G_info_t info{};
  if (H5Gget_info(group, &info) < 0) return;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char name[1024];
    if (H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) < 0) continue;
    const Handle object(H5Oopen(group, name, H5P_DEFAULT), H5Oclose);  // fails on a dangling link: not ours to mind
    if (object) use(std::string(name), static_cast<hid_t>(object));
  }
}

void collect_datasets(hid_t group, const std::string& prefix, int depth, std::vector<std::string>& names) {
  constexpr int kDeepest = 32;  // groups may be linked in a circle
  if (depth > kDeepest) return;
  for_each_object(group, [&](const std::string& name, hid_t object) {
    const H5I_type_t type = H5Iget_type(object);
    if (type == H5I_DATASET) names.push_back(prefix + name);
    if (type == H5I_GROUP) collect_datasets(object, prefix + name + "/", depth + 1, names);
  });
}

/// True where every step of the path exists; HDF5 only answers for the last one.
bool exists(hid_t file, const std::string& name) {
  if (name == "/") return true;
  for (std::size_t end = name.find('/', 1); end != std::string::npos; end = name.find('/', end + 1)) {
    if (H5Lexists(file, name.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0 && H5Oexists_by_name(file, name.c_str(), H5P_DEFAULT) > 0;
}

Handle parent_groups() {
  Handle list(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(list, 1);
  return list;
}

}  // namespace

std::unique_lock<std::recursive_mutex> lock_hdf5() { return std::unique_lock(Lock::mutex()); }

void set_hdf5_locking(bool on) {
#ifdef PETAFLOW_HDF5_LOCKING_IS_A_PROPERTY
  locking = on;
#else
  if (!on) setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);  // which an older library reads when it opens its first file
#endif
}

Hdf5File::Impl::~Impl() {
  if (descriptor >= 0) ::close(descriptor);
}

bool is_hdf5(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct stat status{};
  const bool is =
      fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && has_signature(descriptor, status.st_size);
  ::close(descriptor);
  return is;
}

Hdf5File Hdf5File::open(const std::string& path) {
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  impl->descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (impl->descriptor < 0 && errno == ENOENT) user_error("{}", missing_file_text(path));
  if (impl->descriptor < 0) user_error("{} cannot be read: {}", path, std::strerror(errno));
  struct stat status{};
  if (fstat(impl->descriptor, &status) != 0) user_error("{} cannot be read: {}", path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) user_error("{} is a folder; an HDF5 file was expected", path);
  if (status.st_size == 0) user_error("{} is empty; an HDF5 file was expected", path);
  if (!has_signature(impl->descriptor, status.st_size)) {
    user_error("{} is not an HDF5 file: its {} bytes do not start with HDF5's signature", path, status.st_size);
  }
  const Lock lock;
  const Handle access = file_access();  // closing it would clear HDF5's error stack
  impl->id = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
  if (!impl->id) refuse(path, status.st_size);
  return Hdf5File(std::move(impl));
}

Hdf5File Hdf5File::create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) user_error("{} cannot be written: {}", path, std::strerror(errno));
  ::close(descriptor);
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  const Lock lock;
  const Handle access = file_access();
#if H5_VERSION_GE(1, 10, 2)
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);  // checksummed metadata, attributes above 64 KiB
#else
  H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
#endif
  impl->id = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose);
  if (!impl->id) refuse_locked(path);
  check(static_cast<bool>(impl->id), "{} cannot be written", path);
  return Hdf5File(std::move(impl));
}

const std::string& Hdf5File::path() const { return impl_->path; }

std::vector<std::string> Hdf5File::datasets(const std::string& group) const {
  const Lock lock;
  std::vector<std::string> names;
  if (!exists(impl_->id, group)) return names;
  const Handle object(H5Oopen(impl_->id, group.c_str(), H5P_DEFAULT), H5Oclose);
  check(static_cast<bool>(object), "{}: {} cannot be read", path(), group);
  if (H5Iget_type(object) == H5I_GROUP) collect_datasets(object, group.back() == '/' ? group : group + "/", 0, names);
  return names;
}

std::string Hdf5File::contents() const {
  constexpr std::size_t kShown = 12;
  const auto names = datasets();
  std::string list;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) list += fmt::format(" and {} more", names.size() - kShown);
  return names.empty() ? "none" : list;
}

bool Hdf5File::has(const std::string& name) const {
  const Lock lock;
  return exists(impl_->id, name);
}

Hdf5Dataset Hdf5File::dataset(const std::string& name) const {
  if (!has(name)) {
    user_error("{} has no data set {}; it holds {}", path(), name, contents());
  }
  return Hdf5Dataset(std::make_shared<Hdf5Dataset::Impl>(impl_, name));
}

void Hdf5File::create_group(const std::string& name) {
  const Lock lock;
  const Handle group(H5Gcreate2(impl_->id, name.c_str(), parent_groups(), H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  check(static_cast<bool>(group), "{}: group {} cannot be made", path(), name);
}

void Hdf5File::close() {
  const Lock lock;
  check(H5Fflush(impl_->id, H5F_SCOPE_GLOBAL) >= 0, "{} cannot be written: is the disk full?", path());
  check(impl_->id.close(), "{} cannot be written: is the disk full?", path());
}

void write_hdf5_atomically(const std::string& path, const std::function<void(Hdf5File&)>& write) {
  const std::string temporary = temporary_name(path);
  try {
    Hdf5File file = Hdf5File::create(temporary);
    write(file);
    file.close();
    publish_file(temporary, path);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
}

}  // namespace petaflow
