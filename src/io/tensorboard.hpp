// TensorBoard's event files: TFRecords of tensorflow.Event messages (tensorflow/core/util/event.proto), encoded by
// hand: only scalars are written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace petaflow {

using NamedScalar = std::pair<std::string, double>;  // stored as f32

/// Event { wall_time, file_version: "brain.Event:2" }: the first of a file.
std::string encode_version_event(double wall_time_s);
/// Event { wall_time, step, session_log { status: START } }: readers drop what older files hold of this and later
/// steps.
std::string encode_start_event(double wall_time_s, std::int64_t step);
/// Event { wall_time, step, summary { value { tag, simple_value } ... } }.
std::string encode_scalars_event(double wall_time_s, std::int64_t step, std::span<const NamedScalar> scalars);

/// Appends scalars to a new events file of a folder, events.out.tfevents.<unix time>.<host>.<process>.  TensorBoard
/// reads all of them in a folder as one run, so that a resumed run goes on in a file of its own.
class EventFile {
 public:
  /// Throws a user error where the file cannot be made.
  explicit EventFile(const std::string& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// One event, in the file when this returns.  Throws a user error where the file cannot take it (disk full), and
  /// leaves no part of it there: it goes before the next one.
  void write(std::int64_t step, std::span<const NamedScalar> scalars);

 private:
  std::string path_;
  int file_ = -1;
  bool started_ = false;
  std::string unwritten_;  // records that the file could not take so far
};

}  // namespace petaflow
