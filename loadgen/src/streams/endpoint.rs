//! An endpoint for Prometheus: one small answer to whoever asks, on a thread of its own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A request is a line and a few headers; the rest of a longer one is not read.
const REQUEST_MAX: usize = 8 << 10;
/// A client that is slower than this does not keep the next one waiting.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Endpoint {
    address: SocketAddr,
    text: Arc<Mutex<String>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// # Errors
    /// One sentence: the address cannot be listened on.
    pub(crate) fn start(address: &str) -> Result<Self, String> {
        let failed = |error: io::Error| format!("no endpoint on {address}: {error}");
        let listener = TcpListener::bind(address).map_err(failed)?;
        let (text, ends) = (Arc::<Mutex<String>>::default(), Arc::<AtomicBool>::default());
        let address = listener.local_addr().map_err(failed)?;
        let serve = {
            let (text, ends) = (Arc::clone(&text), Arc::clone(&ends));
            move || serve(&listener, &text, &ends)
        };
        let thread = std::thread::Builder::new().name("endpoint".into()).spawn(serve);
        let thread = Some(thread.map_err(failed)?);
        Ok(Self { address, text, ends, thread })
    }

    /// The answer from now on.
    pub(crate) fn show(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the thread. If that fails, it ends with the process.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            // It cannot panic: it has nothing but the lock and sockets.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, text: &Mutex<String>, ends: &AtomicBool) {
    for client in listener.incoming() {
        if ends.load(Ordering::SeqCst) {
            return;
        }
        let text = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A client that breaks off asks again.
        let _ = client.and_then(|client| answer(client, &text));
    }
}

fn answer(mut client: TcpStream, text: &str) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let (status, text) = match path(&mut client)?.as_str() {
        "/metrics" | "/" => ("200 OK", text),
        _ => ("404 Not Found", "the metrics are at /metrics\n"),
    };
    let length = text.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}

/// The path of a GET, once its headers have ended; empty for anything else.
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
        let endpoint = Endpoint::start("127.0.0.1:0").unwrap();
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
    fn a_silent_client_does_not_block_the_others() {
        let endpoint = Endpoint::start("127.0.0.1:0").unwrap();
        endpoint.show("members 1\n".into());
        let silent = TcpStream::connect(endpoint.address).unwrap();
        assert!(ask(&endpoint, "GET / HTTP/1.1\r\n\r\n").ends_with("members 1\n"));
        drop(silent);
        let taken = endpoint.address.to_string();
        assert!(Endpoint::start(&taken).is_err(), "one sentence, not a panic");
    }
}
