// Files that are whole or not there at all, whatever happens while they are written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace petaflow {

/// The name, in the same folder, under which a file is written before it is published.
std::string temporary_name(const std::string& path);

/// Throws a user error where nothing could be made under that name: the nearest folder of it that exists is none, or is
/// not ours to write.
void check_parent(const std::string& path);

/// Throws a user error where a file of that name could not be written: no name, a folder, or check_parent().
void check_output(const std::string& path);

/// check_output(), and throws a user error where the file exists and is not to be overwritten.
void check_new_output(const std::string& path, bool overwrite);

/// Makes the folder of a file, and those that it lies in.  Throws a user error where it cannot be made.
void make_parent(const std::string& path);

/// Brings a closed file to the disk, renames it to path (replacing what was there) and brings the folder's entry to the
/// disk.  Throws a user error that names the file; the temporary is removed then.
void publish_file(const std::string& temporary, const std::string& path);

/// Makes path a symbolic link to target, replacing what was there in one move.  Throws a user error that names the
/// link.
void publish_link(const std::string& target, const std::string& path);

/// Writes text to path: after a crash it holds the old text or the new.  Throws a user error where it cannot be
/// written (no folder, a full disk).
void write_file_atomically(const std::string& path, std::string_view text);

/// Writes all bytes to an open file descriptor; throws a user error that names path.
void write_all(int file, std::string_view text, const std::string& path);

/// Appends all bytes or none to an open log; throws a user error that names path, the size and the room there is.
void append_all(int file, std::string_view text, const std::string& path);

/// "; it takes 7.2 MB and 1.1 MB are free in /scratch/me/runs/night1", for the end of an error; empty where that cannot
/// be found out.
std::string room_for(const std::string& path, std::size_t size_bytes);

}  // namespace petaflow
