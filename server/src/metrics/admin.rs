//! The admin listener. One thread accepts connections, and each connection has a thread of its own.
//! `places.rs` limits the number of connections.

use super::family::Form;
use super::gather::Gather;
use super::guard::{Denied, Guard};
use super::health::{ShardStates, Verdict};
use super::http::{self, Code, Method, Refusal, Request, Response};
use super::page;
use super::places::{Place, Places, REQUESTS_MAX};
use crate::Failure;
use crate::config::{Address, Config};
use crate::mailbox::Peer;
use crate::operator::{Answer, Backups, Operator, Query};
use crate::shard::Common;
use crate::telemetry_thread::TelemetryThread;
use serde_json::json;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The pause after a connection could not be accepted, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The prefix of all paths of the API.
const API: &str = "/api/v1";

/// The path with which `muster backup` begins.
const BACKUP: &str = "/api/v1/backup";

/// The path of a reset, which removes everything that clients have created, except users. The
/// config must allow it.
const RESET: &str = "/reset";

/// The paths of health checks.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];

const OK: Code = Code(200, "OK");
const BAD_REQUEST: Code = Code(400, "Bad Request");
const UNAUTHORIZED: Code = Code(401, "Unauthorized");
const FORBIDDEN: Code = Code(403, "Forbidden");
const NOT_FOUND: Code = Code(404, "Not Found");
const CONFLICT: Code = Code(409, "Conflict");
const UNAVAILABLE: Code = Code(503, "Service Unavailable");

/// The admin side of a server: answers the requests for metrics, health checks, the API and the
/// page.
#[derive(Debug, Clone)]
pub(crate) struct Admin(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    gather: Mutex<Gather>,
    operator: Operator,
    guard: Guard,
    telemetry: TelemetryThread,
    backups: Backups,
    /// The value of `admin.reset.enable`.
    may_reset: bool,
    places: Places,
}

/// Opens the listener; None if it is switched off. If the server cannot listen on the default
/// address, it only logs a warning.
///
/// # Errors
/// The server cannot listen on the address that the config sets.
pub(crate) fn bind(config: &Config) -> Result<Option<TcpListener>, Failure> {
    let text = config.admin_listener.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let address = crate::addresses::resolve(&Address::of_listen(text)?)?;
    match TcpListener::bind(address) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if config.set_text("admin.listener").is_none() => {
            warn!(
                "no page, metrics or health: {address} cannot be listened on: {error}. Set \
                 admin.listener"
            );
            Ok(None)
        }
        Err(error) => Err(format!("admin.listener={text} cannot be listened on: {error}").into()),
    }
}

impl Admin {
    /// Serves the listener on threads that run until the process ends.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        listener: TcpListener,
        version: &'static str,
        config: &Config,
        listeners: Vec<String>,
        states: ShardStates,
        telemetry: TelemetryThread,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Shared {
            gather: Mutex::new(Gather::new(version, listeners, states, Instant::now())),
            operator: Operator::new(config),
            guard: Guard::new(config, address),
            telemetry,
            backups: Backups::default(),
            may_reset: config.admin_reset_enable,
            places: Places::default(),
        };
        let admin = Self(Arc::new(shared));
        info!("page, metrics and health: http://{address}/");
        let accepts = admin.clone();
        thread::Builder::new().name("admin".to_owned()).spawn(move || accepts.accept(&listener))?;
        Ok(admin)
    }

    /// Sets the shards. Called when they have started.
    pub(crate) fn set_peers(&self, peers: Vec<Peer>, common: Common) {
        let disk = (Arc::clone(&common.data), common.space.clone());
        self.0.backups.set_shards(peers.clone(), PathBuf::from(&*common.data));
        self.0.operator.set_shards(peers.clone(), common);
        self.with(|gather| {
            gather.set_peers(peers);
            gather.set_disk(disk);
        });
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
        let stream = Arc::new(stream);
        let Some(place) = self.0.places.enter(&stream) else { return };
        let admin = self.clone();
        // Errors are ignored. A client that has left or does not read gets no answer, and none does
        // if no thread can be started. The place is freed before the client sees that its
        // connection ends.
        let serve = move || {
            let _ = admin.serve(&stream, &place);
            drop(place);
        };
        drop(thread::Builder::new().name("admin-client".to_owned()).spawn(serve));
    }

    fn serve(&self, stream: &TcpStream, place: &Place) -> io::Result<()> {
        match http::read(stream) {
            Ok(Some(request)) => self.serve_request(stream, place, &request)?,
            Ok(None) => return Ok(()),
            Err(refusal) => http::write(stream, &Response::refused(refusal), false)?,
        }
        http::linger(stream)
    }

    fn serve_request(&self, stream: &TcpStream, place: &Place, of: &Request) -> io::Result<()> {
        let is_of_health = HEALTH.contains(&of.path.as_str());
        let working = if is_of_health { place.health() } else { place.request() };
        let answer = if working.is_some() { self.answer(of) } else { busy() };
        http::write(stream, &answer, of.method == Method::Head)
    }

    fn answer(&self, request: &Request) -> Response {
        let is_change = request.method == Method::Post;
        match request.path.as_str() {
            RESET if is_change => self.reset(request).unwrap_or_else(denied),
            BACKUP if is_change => self.back_up(request).unwrap_or_else(denied),
            _ if is_change => Response::refused(Refusal::Method),
            "/" => page::answer(),
            "/metrics" => self.metrics(request).unwrap_or_else(denied),
            "/healthz" => verdict(self.with(Gather::alive)),
            "/readyz" => verdict(self.with(Gather::ready)),
            path => match path.strip_prefix(API).filter(|rest| is_below(rest)) {
                Some(rest) => self.api(rest.trim_matches('/'), request).unwrap_or_else(denied),
                None => {
                    let words = "There are /, /metrics, /healthz, /readyz and /api/v1/.\n";
                    Response::text(NOT_FOUND, words.to_owned())
                }
            },
        }
    }

    fn metrics(&self, request: &Request) -> Result<Response, Denied> {
        self.0.guard.metrics(request)?;
        let form = wanted(&request.accept);
        let survey = self.0.operator.survey();
        let clients = self.0.telemetry.text(form == Form::OpenMetrics);
        let clients = clients.unwrap_or_default();
        let body = self.with(|gather| gather.metrics(form, survey.as_deref(), &clients));
        Ok(Response::new(OK, form.content_type(), body))
    }

    fn api(&self, path: &str, request: &Request) -> Result<Response, Denied> {
        self.0.guard.api(request)?;
        Ok(json_of(match (path, Query::read(&request.query)) {
            (_, None) => Answer::malformed("the query is malformed"),
            ("", Some(_)) => Answer::found(json!({ "paths": PATHS })),
            ("shards", Some(_)) => Answer::found(self.with(Gather::shards)),
            (path, Some(query)) => self.0.operator.answer(path, &query),
        }))
    }

    fn back_up(&self, request: &Request) -> Result<Response, Denied> {
        self.0.guard.api(request)?;
        Ok(json_of(match Query::read(&request.query) {
            None => Answer::malformed("the query is malformed"),
            Some(query) => self.0.backups.begin(&query),
        }))
    }

    fn reset(&self, request: &Request) -> Result<Response, Denied> {
        self.0.guard.reset(request)?;
        Ok(json_of(if self.0.may_reset {
            self.0.operator.reset()
        } else {
            let words = "this server was not started for tests (muster dev, or admin.reset.enable)";
            Answer::error(403, words)
        }))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Gather) -> R) -> R {
        // A panic leaves no half-done change, so the lock can be used even after one.
        act(&mut self.0.gather.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The paths of the API, as help.
const PATHS: [&str; 7] = [
    "/api/v1/shards",
    "/api/v1/groups?search=&kind=&state=&sort=lag|id|members&from=0&rows=50",
    "/api/v1/groups/ID?members_from=0&after_topic=&after_partition=",
    "/api/v1/topics?search=&from=0&rows=50",
    "/api/v1/topics/NAME?from=0&rows=50",
    "/api/v1/records/TOPIC?partition=0&from=&rows=20",
    "/api/v1/configs?broker=0, ?topic=NAME or ?group=ID",
];

/// Whether `rest`, which follows the prefix of a path, is empty or begins with a slash.
fn is_below(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

fn json_of(Answer { status, body }: Answer) -> Response {
    let codes = [OK, BAD_REQUEST, FORBIDDEN, NOT_FOUND, CONFLICT];
    let code = codes.into_iter().find(|code| code.0 == status).unwrap_or(UNAVAILABLE);
    Response::new(code, "application/json", body.to_string())
}

fn verdict(verdict: Verdict) -> Response {
    Response::text(if verdict.is_well { OK } else { UNAVAILABLE }, verdict.text)
}

fn busy() -> Response {
    let words = format!("{REQUESTS_MAX} other requests are being answered, which is the most.\n");
    Response::text(UNAVAILABLE, words)
}

fn denied(denied: Denied) -> Response {
    let (code, headers) = match denied {
        Denied::NoToken => (UNAUTHORIZED, "WWW-Authenticate: Bearer\r\n"),
        Denied::NotLocal | Denied::ForeignHost | Denied::ForeignPage => (FORBIDDEN, ""),
    };
    let body = json!({ "error": denied.words() }).to_string();
    Response { headers: headers.to_owned(), ..Response::new(code, "application/json", body) }
}

/// The format that a client prefers. It is OpenMetrics if the client accepts it, and does not give
/// plain text a higher weight.
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
        // The header of Prometheus, and others.
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
