#include "compiler/tools/dataset/decompress.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "error.h"

namespace llmc::data {

namespace {

class Gzip : public Decompressor {
 public:
  Gzip() {
    constexpr int kGzipOnly = 16;  // added to the window's bits
    if (inflateInit2(&stream_, kGzipOnly + MAX_WBITS) != Z_OK) throw Failure(Exit::internal, "zlib has no memory");
  }
  ~Gzip() override { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  std::size_t run(std::span<const std::byte>& in, std::span<char> out) override {
    // Between members and at the end may be zeros, to fill a block (gzip(1) and Python skip them too).
    while (complete_ && !in.empty() && in.front() == std::byte{0}) in = in.subspan(1);
    if (complete_ && in.empty()) return 0;
    if (complete_) inflateReset(&stream_);  // the next member
    complete_ = false;
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<uInt>(std::min(in.size(), kMost));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min(out.size(), kMost));
    const uInt given = stream_.avail_in, room = stream_.avail_out;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    in = in.subspan(given - stream_.avail_in);
    started_ |= stream_.total_out > 0 || status == Z_STREAM_END;
    if (status == Z_STREAM_END)
      complete_ = true;
    else if (status != Z_OK && status != Z_BUF_ERROR)  // the latter: nothing was left to do
      throw Failure(Exit::data, started_ ? fmt::format("is damaged: {}", stream_.msg ? stream_.msg : "invalid data")
                                         : fmt::format("is not gzip data: {}", stream_.msg ? stream_.msg : "invalid"));
    return room - stream_.avail_out;
  }
  bool complete() const override { return complete_; }

 private:
  z_stream stream_ = {};
  bool started_ = false, complete_ = false;
};

class Zstandard : public Decompressor {
 public:
  Zstandard() : stream_(ZSTD_createDStream()) {
    if (!stream_) throw Failure(Exit::internal, "libzstd has no memory");
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kWindowBits);
  }

  std::size_t run(std::span<const std::byte>& in, std::span<char> out) override {
    if (complete_ && in.empty()) return 0;
    ZSTD_inBuffer source{in.data(), in.size(), 0};
    ZSTD_outBuffer target{out.data(), out.size(), 0};
    const std::size_t status = ZSTD_decompressStream(stream_.get(), &target, &source);
    if (ZSTD_isError(status)) {
      const ZSTD_ErrorCode code = ZSTD_getErrorCode(status);
      if (code == ZSTD_error_prefix_unknown && !started_) throw Failure(Exit::data, "is not Zstandard data");
      if (code == ZSTD_error_frameParameter_windowTooLarge)
        throw Failure(Exit::data,
                      fmt::format("needs a window of more than {} MiB. Recompress it: `zstd -dc --long=31 OLD | zstd "
                                  "-o NEW`",
                                  (1 << kWindowBits) >> 20));
      throw Failure(Exit::data, fmt::format("is damaged: {}", ZSTD_getErrorName(status)));
    }
    in = in.subspan(source.pos);
    complete_ = status == 0;
    started_ |= complete_ || target.pos > 0;
    return target.pos;
  }
  bool complete() const override { return complete_; }

 private:
  static constexpr int kWindowBits = 27;

  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool started_ = false, complete_ = false;
};

}  // namespace

Compression compression_of(const std::filesystem::path& name) {
  std::string extension = name.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".gz" ? Compression::gzip : extension == ".zst" ? Compression::zstd : Compression::none;
}

std::unique_ptr<Decompressor> decompressor(Compression compression) {
  if (compression == Compression::gzip) return std::make_unique<Gzip>();
  if (compression == Compression::zstd) return std::make_unique<Zstandard>();
  throw Failure(Exit::internal, "there is nothing to decompress");
}

}  // namespace llmc::data
