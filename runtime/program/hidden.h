// What std::unique_ptr is to the hidden part of a class, without <memory>: emitted sources see these classes, and to
// read <memory> takes g++ longer than to compile them.
#pragma once

namespace llmc {

/// Owns one object made by `new`, or none. T may be incomplete where the class that has the member is declared, not
/// where that class is made or ends.
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
