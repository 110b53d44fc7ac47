//! What one run showed, as JSON and as text.

use serde_json::{Value, json};

use crate::driver::Tally;
use crate::process::CpuSeconds;

/// One measured window.
pub(crate) struct Report {
    pub(crate) mode: String,
    pub(crate) connections: usize,
    pub(crate) seconds: f64,
    pub(crate) tally: Tally,
    pub(crate) client: CpuSeconds,
    pub(crate) server: Option<ServerUse>,
}

/// What the server used in the window, and the memory it held at its end.
pub(crate) struct ServerUse {
    pub(crate) cpu: CpuSeconds,
    /// All that happened on the core to which it is pinned, if that is known.
    pub(crate) core_busy_seconds: Option<f64>,
    pub(crate) resident_bytes: u64,
}

impl Report {
    pub(crate) fn json(&self) -> Value {
        let answers = self.tally.latency.len() as f64;
        json!({
            "mode": self.mode,
            "connections": self.connections,
            "seconds": round(self.seconds, 3),
            "answers": self.tally.latency.len(),
            "errors": self.tally.errors,
            "first_error": self.tally.first_error,
            "answers_per_second": round(answers / self.seconds, 0),
            "latency_us": {
                "p50": self.latency_us(0.5),
                "p99": self.latency_us(0.99),
                "p999": self.latency_us(0.999),
                "max": self.latency_us(1.0),
            },
            "client": cpu_json(self.client, answers),
            "server": self.server.as_ref().map(|server| {
                let mut value = cpu_json(server.cpu, answers);
                value["core_busy_seconds"] =
                    server.core_busy_seconds.map(|busy| round(busy, 2)).into();
                value["resident_bytes"] = server.resident_bytes.into();
                value
            }),
        })
    }

    pub(crate) fn text(&self) -> String {
        let answers = self.tally.latency.len() as f64;
        let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|q| self.latency_us(q));
        let mut text = format!(
            "{}, {} connections, {:.1} s: {:.0} answers/s, {} errors\n\
             latency us: p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}\n\
             client: {:.2} CPU-s",
            self.mode,
            self.connections,
            self.seconds,
            answers / self.seconds,
            self.tally.errors,
            self.client.total()
        );
        if let Some(server) = &self.server {
            let cpu = server.cpu.total();
            let mebibytes = server.resident_bytes >> 20;
            text += &format!(
                "\nserver: {cpu:.2} CPU-s, {:.0} answers/CPU-s, {mebibytes} MiB resident",
                answers / cpu
            );
        }
        text
    }

    fn latency_us(&self, quantile: f64) -> f64 {
        round(self.tally.latency.value_at_quantile(quantile) as f64 / 1000.0, 1)
    }
}

fn cpu_json(cpu: CpuSeconds, answers: f64) -> Value {
    let total = cpu.total();
    json!({
        "user_seconds": round(cpu.user, 2),
        "system_seconds": round(cpu.system, 2),
        "cpu_seconds": round(total, 2),
        "answers_per_cpu_second": (total > 0.0).then(|| round(answers / total, 0)),
    })
}

fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
