//! Configs that limit connections and client rates.

use super::Config;
use crate::quotas::Window;
use std::collections::HashMap;
use std::net::IpAddr;

const OVERRIDES: &str = "max.connections.per.ip.overrides";

impl Config {
    /// `max.connections.per.ip.overrides`, by address.
    pub(crate) fn connections_per_ip_overrides(&self) -> HashMap<IpAddr, usize> {
        overrides(self).filter_map(Result::ok).collect()
    }

    /// Whether this is the listener that Kafka's brokers would use for connections to each other.
    /// As in Kafka, no connection of this listener is closed because there are more than
    /// `max.connections`.
    pub(crate) fn is_between_brokers(&self, listener: &str) -> bool {
        let name = self.inter_broker_listener_name.as_deref().unwrap_or("PLAINTEXT");
        listener.eq_ignore_ascii_case(name)
    }

    /// The first invalid key about connections, with the reason.
    pub(super) fn check_connections(&self) -> Option<(&'static str, String)> {
        overrides(self).find_map(Result::err).map(|rule| (OVERRIDES, rule))
    }

    /// The window over which client rates are measured.
    pub(crate) fn quota_window(&self) -> Window {
        window(self.quota_window_num, self.quota_window_size_seconds)
    }

    /// The window over which changes of topics are measured for quotas.
    pub(crate) fn controller_quota_window(&self) -> Window {
        window(self.controller_quota_window_num, self.controller_quota_window_size_seconds)
    }
}

fn window(samples: i32, seconds: i32) -> Window {
    Window { samples: samples.unsigned_abs(), sample_ms: i64::from(seconds) * 1_000 }
}

/// Parses pairs `address:number`, separated by commas. An address may contain colons.
fn overrides(config: &Config) -> impl Iterator<Item = Result<(IpAddr, usize), String>> {
    let pairs = config.max_connections_per_ip_overrides.split(',').map(str::trim);
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let read = pair.rsplit_once(':').and_then(|(address, count)| {
            let address: IpAddr = address.trim().parse().ok()?;
            Some((address.to_canonical(), count.trim().parse().ok()?))
        });
        read.ok_or_else(|| {
            format!("{OVERRIDES}: {pair} is not an address with a number, such as 10.0.0.1:100")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(value: &str) -> Result<Config, String> {
        let words = [format!("{OVERRIDES}={value}")];
        Config::load("", &words).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_have_limits_of_their_own() {
        let config = load("10.0.0.1:5, ::1:0 ,::ffff:10.0.0.2:7").unwrap();
        let overrides = config.connections_per_ip_overrides();
        let of = |address: &str| overrides[&address.parse::<IpAddr>().unwrap()];
        assert_eq!((of("10.0.0.1"), of("::1"), of("10.0.0.2")), (5, 0, 7));
    }

    #[test]
    fn other_words_are_refused() {
        for value in ["10.0.0.1", "host.example:5", "10.0.0.1:many", "10.0.0.1:-1"] {
            assert!(load(value).unwrap_err().contains("is not an address with a number"));
        }
    }
}
