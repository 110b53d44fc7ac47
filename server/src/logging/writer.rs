//! The thread that writes the lines. A slow reader may block this thread, but no other.

use super::Format;
use super::queue::{Item, Kind, Waiting};
use serde_json::json;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::thread;
use tracing_subscriber::fmt::format;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

pub(super) fn start(waiting: Waiting, format: Format) -> io::Result<()> {
    // The writer has descriptors of its own. It needs no lock of standard output, for which other
    // threads would wait during a slow write.
    let outputs = [io::stdout().as_fd(), io::stderr().as_fd()].map(|fd| fd.try_clone_to_owned());
    let outputs = outputs.into_iter().map(|fd| fd.map(File::from)).collect::<io::Result<_>>()?;
    let writer = Writer { outputs, format, lost: 0, why: None };
    thread::Builder::new().name("log".to_owned()).spawn(move || writer.run(&waiting))?;
    Ok(())
}

struct Writer<W> {
    /// The outputs, in order of preference. Errors have the reverse order. A line goes to the first
    /// output that accepts it.
    outputs: Vec<W>,
    format: Format,
    /// How many lines were lost since the last line that was written.
    lost: u64,
    /// The last error of an output. None if no output has failed since the last report of lost
    /// lines.
    why: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    fn run(mut self, waiting: &Waiting) {
        while let Some(item) = waiting.next() {
            self.lost += waiting.take_dropped();
            match item {
                Item::Line(kind, line) => self.line(kind, &line),
                // The receiver is gone if the sender has stopped waiting.
                Item::Flush(done) => drop(done.send(())),
            }
        }
    }

    fn line(&mut self, kind: Kind, line: &[u8]) {
        if self.lost > 0 && self.write(Kind::Other, self.report().as_bytes()) {
            (self.lost, self.why) = (0, None);
        }
        if !self.write(kind, line) {
            self.lost += 1;
        }
    }

    /// Makes the line that reports lost lines. It begins with a line break, because a write that
    /// failed may have left an incomplete line.
    fn report(&self) -> String {
        let mut time = String::new();
        // The time is left out if it cannot be formatted.
        let _ = SystemTime.format_time(&mut format::Writer::new(&mut time));
        let why = self.why.as_ref().map_or("too many at once".to_owned(), io::Error::to_string);
        let words = format!("{} lines of the log are missing here: {why}", self.lost);
        match self.format {
            Format::Text => format!("\n{time}  WARN {words}\n"),
            Format::Json => {
                let line = json!({ "timestamp": time, "level": "WARN", "message": words });
                format!("\n{line}\n")
            }
        }
    }

    fn write(&mut self, kind: Kind, line: &[u8]) -> bool {
        let mut outputs: Vec<&mut W> = self.outputs.iter_mut().collect();
        if kind == Kind::Error {
            outputs.reverse();
        }
        for output in outputs {
            match output.write_all(line) {
                Ok(()) => return true,
                Err(error) => self.why = Some(error),
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue;
    use super::*;
    use std::sync::{Arc, Mutex};

    /// An output that can be made to fail.
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<(Vec<u8>, bool)>>);

    impl Output {
        fn fails(&self, fails: bool) {
            self.0.lock().unwrap().1 = fails;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
        }
    }

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut inner = self.0.lock().unwrap();
            if inner.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            inner.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn writer(count: usize) -> (Vec<Output>, Writer<Output>) {
        let outputs = vec![Output::default(); count];
        let outputs: Vec<_> = outputs.iter().map(|_| Output::default()).collect();
        (outputs.clone(), Writer { outputs, format: Format::Text, lost: 0, why: None })
    }

    #[test]
    fn lost_lines_are_reported_before_the_next_one() {
        let (outputs, mut writer) = writer(1);
        writer.line(Kind::Other, b"first\n");
        outputs[0].fails(true);
        (0..3).for_each(|_| writer.line(Kind::Other, b"lost\n"));
        outputs[0].fails(false);
        (0..2).for_each(|_| writer.line(Kind::Other, b"last\n"));
        let text = outputs[0].text();
        assert!(text.starts_with("first\n\n2") && text.ends_with("\nlast\nlast\n"), "{text}");
        let report = text.lines().nth(2).unwrap();
        assert!(report.contains("WARN 3 lines of the log are missing here"), "{report}");
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn in_json_each_line_is_an_object() {
        let (outputs, mut writer) = writer(1);
        (writer.format, writer.lost) = (Format::Json, 2);
        writer.line(Kind::Other, b"{}\n");
        let text = outputs[0].text();
        let report: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        assert_eq!(report["message"], "2 lines of the log are missing here: too many at once");
        assert_eq!((report["level"].as_str(), text.lines().count()), (Some("WARN"), 3));
    }

    #[test]
    fn where_the_first_output_fails_lines_go_to_the_second() {
        let (outputs, mut writer) = writer(2);
        outputs[0].fails(true);
        writer.line(Kind::Other, b"here\n");
        assert_eq!((outputs[0].text(), outputs[1].text()), (String::new(), "here\n".to_owned()));
    }

    #[test]
    fn errors_go_to_the_last_output_or_else_to_the_first() {
        let (outputs, mut writer) = writer(2);
        writer.line(Kind::Other, b"started\n");
        writer.line(Kind::Error, b"damaged\n");
        outputs[1].fails(true);
        writer.line(Kind::Error, b"stopped\n");
        let texts: Vec<String> = outputs.iter().map(Output::text).collect();
        assert_eq!(texts, ["started\nstopped\n", "damaged\n"]);
    }

    #[test]
    fn dropped_lines_are_reported_before_the_next_one() {
        let (outputs, writer) = writer(1);
        let (queue, waiting) = queue::new();
        (0..queue::LINES_MAX + 7).for_each(|_| queue.push(Kind::Other, b"x\n"));
        let thread = thread::spawn(move || writer.run(&waiting));
        assert!(queue.flush(std::time::Duration::from_secs(60)));
        drop(queue);
        thread.join().unwrap();
        let text = outputs[0].text();
        assert!(text.contains("WARN 7 lines of the log are missing here: too many at once"));
    }
}
