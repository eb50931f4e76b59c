from farmiq.kit.settings import HttpSettings, Port, Secret


class TelemetrySettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5104
    database_url: Secret
    admin_token: Secret
