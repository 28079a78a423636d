#include "climate/frame_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"

namespace petaflow::climate {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSuffix = ".sample";
constexpr const char* kTemporary = ".sample.tmp.";    // behind it process and thread
constexpr std::uint64_t kMagic = 0x31656c706d617370;  // "psample1"

struct Head {
  std::uint64_t magic = kMagic, bytes = 0;  // behind the head
  std::uint64_t checksum = 0;               // of these
  float weight = 0;
  std::uint32_t unused = 0;
};

/// A hash that costs less than reading: four words at a time.
std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t seed) {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  std::array<std::uint64_t, 4> sums = {seed, seed + kPrime, ~seed, seed ^ kPrime};
  const auto take = [](std::uint64_t& sum, std::uint64_t word) { sum = std::rotl((sum ^ word) * kPrime, 29); };
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    std::array<std::uint64_t, 4> words{};
    std::memcpy(words.data(), &bytes[at], 32);
    for (std::size_t i = 0; i < 4; ++i) take(sums[i], words[i]);
  }
  for (; at < bytes.size(); ++at) take(sums[0], std::to_integer<std::uint64_t>(bytes[at]));
  std::uint64_t hash = bytes.size();
  for (const std::uint64_t sum : sums) take(hash, sum);
  return hash ^ (hash >> 32);
}

/// Reads a whole file into its size; false where that is not its size or it cannot be read.
bool read_whole(int file, std::span<std::byte> bytes) {
  struct stat state{};
  if (fstat(file, &state) != 0 || state.st_size != static_cast<off_t>(bytes.size())) return false;
  while (!bytes.empty()) {
    const ssize_t got = ::read(file, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

/// Not brought to the disk: what a crash of the machine leaves has another checksum.
void write_whole(const std::string& path, std::span<const std::byte> bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) user_error("cannot write {}: {}", path, std::strerror(errno));
  try {
    write_all(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  } catch (const Error& error) {
    close(file);
    throw Error(error.kind(), error.what() + room_for(path, bytes.size()));
  }
  if (close(file) != 0) user_error("cannot write {}: {}", path, std::strerror(errno));
}

/// Removes files that were begun an hour ago or earlier, and never renamed.
void remove_left_over(const std::string& folder) {
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::error_code ignored;  // another rank may be faster
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().find(kTemporary) == std::string::npos) continue;
    if (entry.last_write_time(ignored) < long_ago) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

FrameCache::FrameCache(std::string folder, CacheType type, const std::string& recipe, std::int64_t channels,
                       std::size_t targets)
    : folder_(std::move(folder)),
      type_(type),
      recipe_(fmt::format("{}, type {}", recipe, static_cast<int>(type))),
      channels_(static_cast<std::size_t>(channels)),
      targets_(targets) {
  const std::string any = folder_ + "/any" + kSuffix;
  check_parent(any);
  make_parent(any);
  check_parent(any);
  remove_left_over(folder_);
}

std::string FrameCache::path(const std::vector<std::string>& sources, std::int64_t frame) const {
  std::string text = fmt::format("{}, frame {}", recipe_, frame);
  for (const std::string& source : sources) {
    struct stat state{};
    if (stat(source.c_str(), &state) != 0) continue;
    text += fmt::format(", {} {} {} {}.{}", fs::absolute(source).lexically_normal().string(), state.st_ino,
                        state.st_size, state.st_mtim.tv_sec, state.st_mtim.tv_nsec);
  }
  const auto bytes = std::as_bytes(std::span(text));
  return fmt::format("{}/{:016x}{:016x}{}", folder_, hash_of(bytes, 1), hash_of(bytes, 2), kSuffix);
}

std::size_t FrameCache::coded_bytes(const SampleBytes& sample) const {
  return climate::coded_bytes(type_, sample.input.size() / sizeof(float), channels_);
}

std::span<std::byte> FrameCache::buffer(const SampleBytes& sample) const {
  thread_local std::vector<std::byte> bytes;
  std::size_t size = sizeof(Head) + coded_bytes(sample);
  for (std::size_t t = 0; t < targets_; ++t) size += sample.targets[t].size();
  bytes.resize(size);
  return bytes;
}

bool FrameCache::read(const std::string& path, const SampleBytes& sample, float& weight) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const std::span<std::byte> bytes = buffer(sample);
  const bool whole = read_whole(file, bytes);
  close(file);
  Head head;
  std::memcpy(&head, bytes.data(), sizeof head);
  std::span<std::byte> rest = bytes.subspan(sizeof head);
  if (!whole || head.magic != kMagic || head.bytes != rest.size() || head.checksum != hash_of(rest, 0)) {
    log_warning("{} is damaged: its sample is read from the files again, and the copy made anew", path);
    ++damaged_;
    return false;
  }
  decode(type_, rest, channels_, numbers<float>(sample.input));
  rest = rest.subspan(coded_bytes(sample));
  for (std::size_t t = 0; t < targets_; ++t) {
    std::ranges::copy(rest.first(sample.targets[t].size()), sample.targets[t].begin());
    rest = rest.subspan(sample.targets[t].size());
  }
  weight = head.weight;
  ++hits_;
  return true;
}

void FrameCache::write(const std::string& path, const SampleBytes& sample, float weight) {
  const std::span<std::byte> bytes = buffer(sample), rest = bytes.subspan(sizeof(Head));
  encode(type_, numbers<float>(sample.input), channels_, rest);
  decode(type_, rest, channels_, numbers<float>(sample.input));
  if (!writes_) return;
  auto to = rest.begin() + static_cast<std::ptrdiff_t>(coded_bytes(sample));
  for (std::size_t t = 0; t < targets_; ++t) to = std::ranges::copy(sample.targets[t], to).out;
  const Head head{.bytes = rest.size(), .checksum = hash_of(rest, 0), .weight = weight};
  std::memcpy(bytes.data(), &head, sizeof head);
  const std::string temporary =
      fmt::format("{}{}{}.{}", path.substr(0, path.size() - std::strlen(kSuffix)), kTemporary, getpid(), gettid());
  try {
    write_whole(temporary, bytes);
    fs::rename(temporary, path);
    ++made_;
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    if (writes_.exchange(false)) log_warning("{}; data.cache gets no more copies of this set", error.what());
  }
}

std::vector<ReadCount> FrameCache::counts() const {
  return {{"cache_hits", hits_}, {"cache_made", made_}, {"cache_damaged", damaged_}};
}

}  // namespace petaflow::climate
