// A pressure sensor on an ESP32 for FarmIQ: measures once a second, and keeps each reading until the edge has stored it.
//
// Board package: esp32. Libraries: PubSubClient, ArduinoJson (7 or newer).
// The values below are those of `farmiq device add pump-7 --kind sensor --json`.

#include <WiFi.h>
#include <PubSubClient.h>
#include <ArduinoJson.h>
#include <esp_random.h>
#include <esp_timer.h>
#include <sys/time.h>
#include <time.h>

const char *WIFI_NAME = "barn";
const char *WIFI_PASSWORD = "...";
const char *BROKER = "192.0.2.10";
const uint16_t BROKER_PORT = 1883;
const char *DEVICE = "pump-7";
const char *MQTT_PASSWORD = "...";
const char *TENANT = "demo";
const char *PLACE = "demo/farm-1/barn-1";  // tenant, farm, barn
const char *CLOCK_SERVER = "192.0.2.10";   // an NTP server in the barn, so that nothing needs the internet

const int SENSOR_PIN = 34;
const int64_t MEASURE_US = 1000000;
const int64_t RESEND_US = 15 * 1000000LL;
const size_t READINGS_MAX = 600;
const size_t IN_FLIGHT_MAX = 20;  // an acknowledgement of all of them fits into the client's buffer

struct Reading {
  char event_id[37];
  int64_t taken_us;  // time since start, which never jumps
  int64_t sent_us;   // 0: not yet on this connection
  float value;
};

Reading readings[READINGS_MAX];  // a ring: the oldest is at `first`
size_t first = 0, waiting = 0;
uint32_t dropped = 0;  // given up because there was no room, and not told yet
char dropped_id[37] = "";
int64_t dropped_taken_us = 0, dropped_sent_us = 0;
uint32_t dropped_told = 0;
int64_t next_measure_us = 0, next_connect_us = 0;

WiFiClient network;
PubSubClient client(network);

// A random UUID, version 4.
void make_id(char *text) {
  uint8_t b[16];
  esp_fill_random(b, sizeof b);
  b[6] = (b[6] & 0x0f) | 0x40;
  b[8] = (b[8] & 0x3f) | 0x80;
  snprintf(text, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
           b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

bool clock_is_set() { return time(nullptr) > 1700000000; }

void write_time(char *text, size_t size, int64_t wall_us) {
  time_t seconds = wall_us / 1000000;
  struct tm utc;
  gmtime_r(&seconds, &utc);
  char whole[24];
  strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(text, size, "%s.%03dZ", whole, (int)(wall_us / 1000 % 1000));
}

float measure() { return analogReadMilliVolts(SENSOR_PIN) / 1000.0f; }

void keep(float value) {
  if (waiting == READINGS_MAX) {  // no room: the oldest goes, and is told of
    first = (first + 1) % READINGS_MAX;
    waiting--;
    dropped++;
  }
  Reading &reading = readings[(first + waiting) % READINGS_MAX];
  make_id(reading.event_id);
  reading.taken_us = esp_timer_get_time();
  reading.sent_us = 0;
  reading.value = value;
  waiting++;
}

// When this device started, on the wall clock; 0 until the clock is set. Taken once: a reading that is sent again must have the
// same content, and so the same time.
int64_t started_wall_us = 0;

void note_start() {
  if (started_wall_us != 0 || !clock_is_set()) return;
  struct timeval now;
  gettimeofday(&now, nullptr);
  started_wall_us = now.tv_sec * 1000000LL + now.tv_usec - esp_timer_get_time();
}

void publish(Reading &reading) {
  char topic[160], body[400], ts[32];
  write_time(ts, sizeof ts, started_wall_us + reading.taken_us);
  snprintf(topic, sizeof topic, "iot/telemetry/%s/%s/pressure", PLACE, DEVICE);
  snprintf(body, sizeof body,
           "{\"event_id\":\"%s\",\"tenant_id\":\"%s\",\"device_id\":\"%s\",\"event_type\":\"telemetry.reading\","
           "\"ts\":\"%s\",\"payload\":{\"value\":%.3f,\"unit\":\"bar\"}}",
           reading.event_id, TENANT, DEVICE, ts, reading.value);
  if (client.publish(topic, body)) reading.sent_us = esp_timer_get_time();
}

void publish_dropped() {
  char topic[160], body[400], ts[32];
  if (dropped_id[0] == 0) {  // a new count, under an id of its own
    make_id(dropped_id);
    dropped_told = dropped;
    dropped_taken_us = esp_timer_get_time();
    dropped_sent_us = 0;
  }
  write_time(ts, sizeof ts, started_wall_us + dropped_taken_us);
  snprintf(topic, sizeof topic, "iot/event/%s/%s/sensor.readings_dropped", PLACE, DEVICE);
  snprintf(body, sizeof body,
           "{\"event_id\":\"%s\",\"tenant_id\":\"%s\",\"device_id\":\"%s\",\"event_type\":\"sensor.readings_dropped\","
           "\"ts\":\"%s\",\"payload\":{\"count\":%u}}",
           dropped_id, TENANT, DEVICE, ts, (unsigned)dropped_told);
  if (client.publish(topic, body)) dropped_sent_us = esp_timer_get_time();
}

bool is_due(int64_t sent_us) { return sent_us == 0 || esp_timer_get_time() - sent_us >= RESEND_US; }

// The oldest first, and no more at a time than one acknowledgement can name.
void publish_due() {
  for (size_t n = 0; n < waiting && n < IN_FLIGHT_MAX; n++) {
    Reading &reading = readings[(first + n) % READINGS_MAX];
    if (is_due(reading.sent_us)) publish(reading);
  }
  if (dropped > 0 && is_due(dropped_sent_us)) publish_dropped();
}

void forget(const char *event_id) {
  if (strcmp(event_id, dropped_id) == 0) {
    dropped -= dropped_told;
    dropped_id[0] = 0;
    dropped_sent_us = 0;
    return;
  }
  for (size_t n = 0; n < waiting; n++) {
    if (strcmp(readings[(first + n) % READINGS_MAX].event_id, event_id) != 0) continue;
    for (; n > 0; n--) readings[(first + n) % READINGS_MAX] = readings[(first + n - 1) % READINGS_MAX];
    first = (first + 1) % READINGS_MAX;
    waiting--;
    return;
  }
}

// What the edge has in its database, or will never take.
void heed(char *, uint8_t *payload, unsigned int length) {
  JsonDocument ack;
  if (deserializeJson(ack, payload, length)) return;
  for (JsonObject event : ack["events"].as<JsonArray>()) {
    const char *result = event["result"] | "";
    if (strcmp(result, "rejected") == 0) Serial.printf("rejected: %s\n", event["code"] | "?");
    forget(event["event_id"] | "");
  }
}

void connect() {
  char topic[80];
  if (!client.connect(DEVICE, DEVICE, MQTT_PASSWORD)) return;
  snprintf(topic, sizeof topic, "iot/%s/ack", DEVICE);
  client.subscribe(topic, 1);
  for (size_t n = 0; n < waiting; n++) readings[(first + n) % READINGS_MAX].sent_us = 0;
  dropped_sent_us = 0;
}

void setup() {
  Serial.begin(115200);
  WiFi.mode(WIFI_STA);
  WiFi.begin(WIFI_NAME, WIFI_PASSWORD);  // and again by itself whenever it was lost
  configTime(0, 0, CLOCK_SERVER);
  client.setServer(BROKER, BROKER_PORT);
  client.setBufferSize(4096);  // what is larger, the library drops
  client.setCallback(heed);
}

void loop() {
  int64_t now = esp_timer_get_time();
  if (now >= next_measure_us) {
    keep(measure());
    next_measure_us = now + MEASURE_US;
  }
  note_start();
  if (WiFi.status() == WL_CONNECTED && !client.connected() && now >= next_connect_us) {
    connect();
    next_connect_us = esp_timer_get_time() + 2000000;
  }
  if (client.loop() && started_wall_us != 0) publish_due();
  delay(10);
}
