//! The admin listener: a thread that accepts, and one for each of a few connections.

use super::family::Form;
use super::gather::Gather;
use super::health::ShardStates;
use super::http::{self, Code, Request, Response};
use crate::Failure;
use crate::config::{Address, Config};
use crate::mailbox::Peer;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The most connections; further ones are closed at once.
pub(super) const CONNECTIONS_MAX: usize = 8;

/// The pause after a connection could not be accepted, as without descriptors.
const PAUSE: Duration = Duration::from_millis(100);

const OK: Code = Code(200, "OK");
const NOT_FOUND: Code = Code(404, "Not Found");
const UNAVAILABLE: Code = Code(503, "Service Unavailable");

/// The admin side of a server.
#[derive(Debug, Clone)]
pub(crate) struct Admin(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    gather: Mutex<Gather>,
    connections: AtomicUsize,
}

/// Opens the listener; None if there is to be none. One that is there by default may
/// find its address in use: that costs a line of the log.
///
/// # Errors
/// The address that was set cannot be listened on.
pub(crate) fn bind(config: &Config) -> Result<Option<TcpListener>, Failure> {
    let text = config.admin_listener.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let address = crate::addresses::resolve(&Address::of_listen(text)?)?;
    match TcpListener::bind(address) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if config.set_text("admin.listener").is_none() => {
            warn!("no metrics: {address} cannot be listened on: {error}. Set admin.listener");
            Ok(None)
        }
        Err(error) => Err(format!("admin.listener={text} cannot be listened on: {error}").into()),
    }
}

impl Admin {
    /// Serves on a listener, on threads that end with the process.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) fn start(
        listener: TcpListener,
        version: &'static str,
        listeners: Vec<String>,
        states: ShardStates,
    ) -> io::Result<Self> {
        let gather = Mutex::new(Gather::new(version, listeners, states, Instant::now()));
        let admin = Self(Arc::new(Shared { gather, connections: AtomicUsize::new(0) }));
        info!("metrics and health: http://{}/metrics", listener.local_addr()?);
        let accepts = admin.clone();
        thread::Builder::new().name("admin".to_owned()).spawn(move || accepts.accept(&listener))?;
        Ok(admin)
    }

    /// The shards run from now on.
    pub(crate) fn set_peers(&self, peers: Vec<Peer>) {
        self.with(|gather| gather.set_peers(peers));
    }

    fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.accepted(stream),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn accepted(&self, stream: TcpStream) {
        let connections = &self.0.connections;
        if connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let admin = self.clone();
        let serve = move || {
            // A client that has left, or does not read, gets no answer.
            let _ = admin.serve(&stream);
            admin.0.connections.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("admin-client".to_owned()).spawn(serve).is_err() {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        match http::read(stream) {
            Ok(Some(request)) => http::write(stream, &self.answer(&request), request.is_head),
            Ok(None) => Ok(()),
            Err(refusal) => http::write(stream, &Response::refused(refusal), false),
        }
    }

    fn answer(&self, request: &Request) -> Response {
        let verdict = match request.path.as_str() {
            "/metrics" => {
                let form = wanted(&request.accept);
                let body = self.with(|gather| gather.metrics(form));
                return Response { status: OK, content_type: form.content_type(), body };
            }
            "/healthz" => self.with(Gather::alive),
            "/readyz" => self.with(Gather::ready),
            _ => {
                let words = "There are /metrics, /healthz and /readyz.\n";
                return Response::text(NOT_FOUND, words.to_owned());
            }
        };
        Response::text(if verdict.is_well { OK } else { UNAVAILABLE }, verdict.text)
    }

    fn with<R>(&self, act: impl FnOnce(&mut Gather) -> R) -> R {
        // Its state is that of one request: a panic of another one leaves nothing half done.
        act(&mut self.0.gather.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The form that a client prefers: OpenMetrics if it names it with no less weight.
fn wanted(accept: &str) -> Form {
    let (mut open_metrics, mut plain) = (0.0_f32, 0.0_f32);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let quality: f32 = quality.map_or(1.0, |text| text.parse().unwrap_or(0.0));
        if name.eq_ignore_ascii_case("application/openmetrics-text") {
            open_metrics = quality.max(open_metrics);
        } else if ["text/plain", "text/*", "*/*"].iter().any(|it| name.eq_ignore_ascii_case(it)) {
            plain = plain.max(quality);
        }
    }
    if open_metrics > 0.0 && open_metrics >= plain { Form::OpenMetrics } else { Form::Prometheus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_that_ask_for_it() {
        // As Prometheus asks, and others.
        let of_prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
             application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,\
             */*;q=0.2";
        assert_eq!(wanted("application/openmetrics-text"), Form::OpenMetrics);
        assert_eq!(wanted(of_prometheus), Form::OpenMetrics);
        for accept in ["", "*/*", "text/plain", "application/openmetrics-text;q=0", "text/html,;;"]
        {
            assert_eq!(wanted(accept), Form::Prometheus, "{accept}");
        }
        let prefers_text = "application/openmetrics-text;q=0.2,text/plain;q=0.9";
        assert_eq!(wanted(prefers_text), Form::Prometheus);
    }
}
