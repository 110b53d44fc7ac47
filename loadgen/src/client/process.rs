//! A process and its outputs. A thread reads the lines of each output.

use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use crossbeam_channel::Sender;
use rustix::process::{Pid, Signal, kill_process_group};

use super::line::understood;
use super::{Read, What};
use crate::plan::MemberIndex;

pub(super) const OUTPUTS: usize = 2;
pub(super) const SUCCESS: &str = "exit status 0";
/// The maximum length of a line, which may name many partitions. A longer line is reported as a
/// mistake.
const LINE_MAX: u64 = 1 << 20;
/// muster-load keeps the last line that is not meant for it, because this line may say why the
/// process ended. This is the number of characters that are kept.
const KEPT: usize = 300;

/// A process. When this value is dropped, the process and its whole process group are killed.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    pub(super) fn start(
        command: &[String],
        client: MemberIndex,
        lines: &Sender<Read>,
    ) -> io::Result<Self> {
        let [program, arguments @ ..] = command else {
            return Err(io::Error::other("it has no command"));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let outputs = (child.stdout.take(), child.stderr.take());
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let process = Self { child, group };
        if let (Some(stdout), Some(stderr)) = outputs {
            follow(stdout, client, lines.clone())?;
            follow(stderr, client, lines.clone())?;
        }
        Ok(process)
    }

    /// Sends a signal to the whole group. A group without processes needs none.
    pub(super) fn signal(&self, kill: bool) {
        let signal = if kill { Signal::KILL } else { Signal::TERM };
        if let Some(group) = self.group {
            let _gone_already = kill_process_group(group, signal);
        }
    }

    /// How the process ended, if it did. The processes that it started are ended, too.
    pub(super) fn exit(&mut self) -> Option<String> {
        let exit = self.child.try_wait().transpose()?;
        self.signal(true);
        Some(exit.map_or_else(|error| format!("its end is not known: {error}"), in_words))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(true);
        let _reaped = self.child.wait();
    }
}

fn in_words(exit: ExitStatus) -> String {
    match (exit.code(), exit.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown exit status".into(),
    }
}

fn follow(
    output: impl io::Read + Send + 'static,
    from: MemberIndex,
    to: Sender<Read>,
) -> io::Result<()> {
    let name = format!("client-{}", from.0);
    let read = move || read_lines(BufReader::new(output), from, &to);
    std::thread::Builder::new().name(name).spawn(read).map(drop)
}

/// Reads lines and sends them to `to`, until the output ends or the receiver is gone.
fn read_lines(mut output: impl BufRead, from: MemberIndex, to: &Sender<Read>) {
    let (mut line, mut last) = (Vec::new(), String::new());
    while let Ok(whole) = next_line(&mut output, &mut line) {
        if line.is_empty() {
            break;
        }
        let at = Instant::now();
        let text = String::from_utf8_lossy(&line);
        let what = if whole {
            understood(text.trim_end())
        } else {
            Some(What::Slip(format!("a line is longer than {LINE_MAX} bytes")))
        };
        let Some(what) = what else {
            last = text.trim_end().chars().take(KEPT).collect();
            continue;
        };
        if to.send(Read { from, at, what }).is_err() {
            return;
        }
    }
    let _gone = to.send(Read { from, at: Instant::now(), what: What::Ended(last) });
}

/// Reads a line of at most [`LINE_MAX`] bytes. If the line is longer, skips the rest of it and
/// returns false.
fn next_line(output: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    output.by_ref().take(LINE_MAX).read_until(b'\n', line)?;
    if (line.len() as u64) < LINE_MAX || line.last() == Some(&b'\n') {
        return Ok(true);
    }
    loop {
        let buffer = output.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let skipped = end.map_or(buffer.len(), |end| end + 1);
        output.consume(skipped);
        if end.is_some() || skipped == 0 {
            return Ok(false);
        }
    }
}
