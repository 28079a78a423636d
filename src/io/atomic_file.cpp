// Write, sync, rename, sync.
#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace petaflow {
namespace {

// Brings a file or folder to the disk; 0, or the error number.
int sync(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) return errno;
  int error = fsync(file) == 0 ? 0 : errno;
  if (error == EINVAL) error = 0;  // a file system that has nothing to sync says so this way
  close(file);
  return error;
}

// Renames, and brings the folder's entry to the disk.
void move_into_place(const std::string& temporary, const std::string& path) {
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    user_error("cannot write {}: {}", path, std::strerror(error));
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int error = sync(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY);
  if (error != 0) user_error("cannot bring the folder of {} to the disk: {}", path, std::strerror(error));
}

// In powers of ten, as df -H.
std::string size_text(std::uintmax_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  if (size < 1e6) return fmt::format("{:.1f} kB", 1e-3 * size);
  return size < 1e9 ? fmt::format("{:.1f} MB", 1e-6 * size) : fmt::format("{:.1f} GB", 1e-9 * size);
}

}  // namespace

void check_parent(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path folder = fs::absolute(path).parent_path();
  for (bool gone = true; gone;) {
    while (!fs::exists(folder) && folder.has_relative_path()) folder = folder.parent_path();  // the rest can be made
    const bool is_folder = fs::is_directory(folder);
    const int error = access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
    gone = error == ENOENT && folder.has_relative_path();  // another process has just removed it
    if (gone) continue;
    if (!is_folder) user_error("{} cannot be written: {} is not a folder", path, folder.string());
    if (error != 0) user_error("{} cannot be written: {}: {}", path, folder.string(), std::strerror(error));
  }
}

void check_output(const std::string& path) {
  if (path.empty()) user_error("the name of a file to write is empty");
  if (std::filesystem::is_directory(path)) user_error("{} is a folder; name a file to write", path);
  check_parent(path);
}

void check_new_output(const std::string& path, bool overwrite) {
  check_output(path);
  if (std::filesystem::exists(path) && !overwrite) {
    user_error("{} exists; choose another name, or --overwrite to replace it", path);
  }
}

void make_parent(const std::string& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  std::error_code status;
  std::filesystem::create_directories(folder, status);
  if (status) user_error("cannot make the folder {}: {}", folder.string(), status.message());
}

std::string temporary_name(const std::string& path) { return path + ".tmp." + std::to_string(getpid()); }

void write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) user_error("cannot write {}: {}", path, std::strerror(n < 0 ? errno : ENOSPC));
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string room_for(const std::string& path, std::size_t size_bytes) {
  std::error_code status;
  const auto folder = std::filesystem::absolute(path).parent_path();
  const std::filesystem::space_info space = std::filesystem::space(folder, status);
  if (status) return "";
  return fmt::format("; it takes {} and {} are free in {}", size_text(size_bytes), size_text(space.available),
                     folder.string());
}

void append_all(int file, std::string_view text, const std::string& path) {
  const off_t size = lseek(file, 0, SEEK_END);
  try {
    write_all(file, text, path);
  } catch (const Error& error) {
    const std::string room = ftruncate(file, size) == 0 ? room_for(path, text.size()) : "";  // no room in a device
    throw Error(error.kind(), error.what() + room);
  }
}

void publish_file(const std::string& temporary, const std::string& path) {
  const int error = sync(temporary, O_RDONLY);
  if (error != 0) {
    unlink(temporary.c_str());
    user_error("cannot write {}: {}", path, std::strerror(error));
  }
  move_into_place(temporary, path);
}

void publish_link(const std::string& target, const std::string& path) {
  const std::string temporary = temporary_name(path);
  unlink(temporary.c_str());
  if (symlink(target.c_str(), temporary.c_str()) != 0) {
    user_error("cannot make the link {}: {}", path, std::strerror(errno));
  }
  move_into_place(temporary, path);
}

void write_file_atomically(const std::string& path, std::string_view text) {
  const std::string temporary = temporary_name(path);
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) user_error("cannot write {}: {}", path, std::strerror(errno));
  try {
    write_all(file, text, path);
  } catch (const Error& error) {
    close(file);
    unlink(temporary.c_str());
    throw Error(error.kind(), error.what() + room_for(path, text.size()));
  }
  if (close(file) != 0) {  // NFS reports a full disk here
    const int error = errno;
    unlink(temporary.c_str());
    user_error("cannot write {}: {}", path, std::strerror(error));
  }
  publish_file(temporary, path);
}

}  // namespace petaflow
