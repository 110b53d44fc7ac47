//! Endpoints for Prometheus and browsers. Each has a thread, and answers every client with one
//! text.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximum length of a request. It consists of a line and a few headers. The rest of a longer
/// request is not read.
const REQUEST_MAX: usize = 8 << 10;
/// The timeout of each read and write. Clients are served one after the other, so a slow client
/// makes the others wait.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a page counts as watched after a request. A browser that shows it sends a request every
/// few seconds.
const WATCHED: Duration = Duration::from_secs(15);

/// The type of text that an endpoint returns.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    mime: &'static str,
    paths: &'static [&'static str],
    hint: &'static str,
}

pub(crate) const PROMETHEUS: Kind = Kind {
    mime: "text/plain; version=0.0.4; charset=utf-8",
    paths: &["/metrics", "/"],
    hint: "the metrics are at /metrics\n",
};
pub(crate) const PAGE: Kind =
    Kind { mime: "text/html; charset=utf-8", paths: &["/"], hint: "the page is at /\n" };

pub(crate) struct Endpoint {
    address: SocketAddr,
    shown: Arc<Mutex<Shown>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shown {
    text: String,
    asked: Option<Instant>,
}

impl Endpoint {
    /// # Errors
    /// The address can't be listened on. The error is a sentence for the user.
    pub(crate) fn start(address: &str, kind: Kind) -> Result<Self, String> {
        let failed = |error: io::Error| format!("no endpoint on {address}: {error}");
        let listener = TcpListener::bind(address).map_err(failed)?;
        let (shown, ends) = (Arc::<Mutex<Shown>>::default(), Arc::<AtomicBool>::default());
        let address = listener.local_addr().map_err(failed)?;
        let serve = {
            let (shown, ends) = (Arc::clone(&shown), Arc::clone(&ends));
            move || serve(&listener, kind, &shown, &ends)
        };
        let thread = std::thread::Builder::new().name("endpoint".into()).spawn(serve);
        let thread = Some(thread.map_err(failed)?);
        Ok(Self { address, shown, ends, thread })
    }

    /// Sets the text of later answers.
    pub(crate) fn show(&self, text: String) {
        locked(&self.shown).text = text;
    }

    /// Whether a client has recently sent a request.
    pub(crate) fn is_watched(&self) -> bool {
        locked(&self.shown).asked.is_some_and(|asked| asked.elapsed() < WATCHED)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the thread. If this fails, the thread ends with the process.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            // The only possible error is a panic of the thread, which uses only a lock and sockets.
            let _ = thread.join();
        }
    }
}

fn locked(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(listener: &TcpListener, kind: Kind, shown: &Mutex<Shown>, ends: &AtomicBool) {
    for client in listener.incoming() {
        if ends.load(Ordering::SeqCst) {
            return;
        }
        // A client whose connection breaks will try again.
        let _ = client.and_then(|client| answer(client, kind, shown));
    }
}

fn answer(mut client: TcpStream, kind: Kind, shown: &Mutex<Shown>) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let path = path(&mut client)?;
    let is_known = kind.paths.contains(&path.as_str());
    let (status, mime, text) = if is_known {
        let mut shown = locked(shown);
        shown.asked = Some(Instant::now());
        ("200 OK", kind.mime, shown.text.clone())
    } else {
        ("404 Not Found", "text/plain; charset=utf-8", kind.hint.to_owned())
    };
    let length = text.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: {mime}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}

/// Reads a request up to the end of its headers. Returns the path of a GET request, or an empty
/// string for any other request.
fn path(client: &mut TcpStream) -> io::Result<String> {
    let mut request = Vec::new();
    let mut some = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        match client.read(&mut some)? {
            0 => break,
            read => request.extend_from_slice(&some[..read]),
        }
    }
    let request = String::from_utf8_lossy(&request);
    let mut words = request.split_whitespace();
    let is_get = words.next() == Some("GET");
    Ok(words.next().filter(|_| is_get).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(endpoint: &Endpoint, request: &str) -> String {
        let mut client = TcpStream::connect(endpoint.address).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_last_text_is_answered() {
        let endpoint = Endpoint::start("127.0.0.1:0", PROMETHEUS).unwrap();
        for text in ["members 1\n", "members 2\n"] {
            endpoint.show(text.into());
            let answer = ask(&endpoint, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(text),
                "{answer}"
            );
        }
        assert!(ask(&endpoint, "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(&endpoint, "PUT / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    }

    #[test]
    fn a_page_is_watched_once_it_was_asked_for() {
        let endpoint = Endpoint::start("127.0.0.1:0", PAGE).unwrap();
        endpoint.show("<p>under way".into());
        assert!(ask(&endpoint, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(!endpoint.is_watched());
        let answer = ask(&endpoint, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.contains("\r\nContent-Type: text/html; charset=utf-8\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n<p>under way"), "{answer}");
        assert!(endpoint.is_watched());
    }

    #[test]
    fn a_silent_client_does_not_block_the_others() {
        let endpoint = Endpoint::start("127.0.0.1:0", PROMETHEUS).unwrap();
        endpoint.show("members 1\n".into());
        let silent = TcpStream::connect(endpoint.address).unwrap();
        assert!(ask(&endpoint, "GET / HTTP/1.1\r\n\r\n").ends_with("members 1\n"));
        drop(silent);
        let taken = endpoint.address.to_string();
        assert!(Endpoint::start(&taken, PROMETHEUS).is_err(), "one sentence, not a panic");
    }
}
