// The part of the library ArduinoJson that the sketch uses: reading objects with text fields out of one array.
#pragma once

#include <stdint.h>

#include <deque>
#include <string>
#include <vector>

// Text that the sketch points into. The library keeps it in the document; here it stays for ever.
inline const std::string &kept_text(std::string text) {
  static std::deque<std::string> kept;
  return kept.emplace_back(std::move(text));
}

class JsonValue {
 public:
  explicit JsonValue(std::string text) : text_(kept_text(std::move(text))) {}
  const char *operator|(const char *otherwise) const { return text_.empty() ? otherwise : text_.c_str(); }
  template <class Kind> Kind as() const { return Kind(text_); }

 private:
  const std::string &text_;
};

class JsonObject {
 public:
  explicit JsonObject(std::string text) : text_(std::move(text)) {}
  JsonValue operator[](const char *name) const {
    size_t at = text_.find("\"" + std::string(name) + "\":\"");
    if (at == std::string::npos) return JsonValue("");
    size_t start = at + std::string(name).size() + 4;
    return JsonValue(text_.substr(start, text_.find('"', start) - start));
  }

 private:
  std::string text_;
};

class JsonArray {
 public:
  explicit JsonArray(const std::string &text) {
    for (size_t start = text.find('{'); start != std::string::npos; start = text.find('{', start + 1))
      objects_.push_back(JsonObject(text.substr(start, text.find('}', start) - start)));
  }
  std::vector<JsonObject>::iterator begin() { return objects_.begin(); }
  std::vector<JsonObject>::iterator end() { return objects_.end(); }

 private:
  std::vector<JsonObject> objects_;
};

class JsonDocument {
 public:
  JsonValue operator[](const char *name) const {
    size_t at = text.find("\"" + std::string(name) + "\":[");
    return JsonValue(at == std::string::npos ? "" : text.substr(at, text.find(']', at) - at));
  }
  std::string text;
};

inline bool deserializeJson(JsonDocument &document, const uint8_t *data, unsigned int size) {
  document.text.assign(reinterpret_cast<const char *>(data), size);
  return false;  // no error
}
