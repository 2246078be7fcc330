// Owning pointer to the hidden part of a class, in place of std::unique_ptr: emitted sources include these classes, and
// parsing <memory> takes g++ longer than compiling them.
#pragma once

namespace llmc {

/// Owns one object made by `new`, or none. T may be incomplete where the member is declared, but not in the owner's
/// constructor and destructor.
template <class T>
class Hidden {
 public:
  explicit Hidden(T* object) : object_(object) {}
  Hidden(Hidden&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Hidden& operator=(Hidden&&) = delete;
  ~Hidden() {
    static_assert(sizeof(T) > 0, "deleted where its destructor is known");
    delete object_;
  }

  explicit operator bool() const { return object_ != nullptr; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_;
};

}  // namespace llmc
