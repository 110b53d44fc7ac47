//! The live view of a run on standard error. On a terminal a few lines are redrawn. Elsewhere a
//! plain line is printed every few seconds.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::text::{Paint, clock, count, counted, millis, number, plain, shortened};
use crate::member::State;

/// The maximum rate at which the screen is redrawn.
const DRAWS_PER_SECOND: u8 = 5;
/// The interval of plain lines. When a phase begins, a line is printed at once.
const LINES_EVERY: Duration = Duration::from_secs(5);
/// The width in columns. It fits common terminals. Narrower terminals wrap the lines.
const WIDTH: usize = 78;
const LABEL: usize = 11;
/// The length of the longest name of a round trip.
const NAME: usize = 18;

/// The state of a run at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LiveState {
    pub scenario: String,
    /// The time since the start of the run.
    pub elapsed: Duration,
    pub phase: LivePhase,
    pub members: MemberCounts,
    pub groups: u32,
    /// The number of stable groups.
    pub groups_stable: u32,
    /// The number of rebalances that ended.
    pub rebalances: u64,
    /// The newest of these rebalances in words, such as `500 crashed: 2.31 s`.
    pub last_rebalance: Option<String>,
    /// The number of partitions without an owner in groups that should consume them.
    pub partitions_unowned: u32,
    /// The round trips to show, in this order.
    pub loads: Vec<LiveLoad>,
    pub errors: u64,
    /// The number of requests that were due at least a second ago and have no answer.
    pub waiting: u64,
    /// The age of the oldest request without an answer.
    pub waiting_longest: Duration,
    pub violations: u64,
    pub connections: u32,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct LivePhase {
    pub name: String,
    /// The number of the phase, from 1.
    pub number: u32,
    pub of: u32,
    pub elapsed: Duration,
    /// The planned duration of the phase, if it is known.
    pub planned: Option<Duration>,
}

/// The number of members in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemberCounts {
    counts: [u32; STATES.len()],
}

const STATES: [(State, &str); 7] = [
    (State::Stable, "stable"),
    (State::Reconciling, "reconciling"),
    (State::Joining, "joining"),
    (State::Searching, "searching"),
    (State::Fenced, "fenced"),
    (State::Failed, "failed"),
    (State::Down, "down"),
];

/// The round trips of a kind since the last update (or in the last seconds).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LiveLoad {
    /// The name in the report, such as `heartbeat` or `offset-fetch`.
    pub name: String,
    pub per_second: f64,
    /// The median of the round trips in milliseconds. `p99` is their 99th percentile.
    pub p50: f64,
    pub p99: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The view is redrawn in place.
    Screen,
    /// A line is printed every few seconds.
    Lines,
    Quiet,
}

impl Mode {
    /// The mode that fits standard error.
    pub fn detect(quiet: bool) -> Self {
        if quiet {
            Self::Quiet
        } else if std::io::stderr().is_terminal() {
            Self::Screen
        } else {
            Self::Lines
        }
    }
}

/// Shows [`LiveState`]s. It may be updated often, because an update soon after the last one is not
/// drawn.
pub struct Live {
    mode: Mode,
    paint: Paint,
    bar: Option<ProgressBar>,
    drawn: Option<Instant>,
    phase: u32,
}

impl Live {
    pub fn new(mode: Mode) -> Self {
        let bar = (mode == Mode::Screen).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
            let bar = ProgressBar::with_draw_target(None, target);
            bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| {
                ProgressStyle::default_spinner() // harmless, and unreachable for a fixed template
            }));
            bar
        });
        Self { mode, paint: Paint::of(&std::io::stderr()), bar, drawn: None, phase: 0 }
    }

    pub fn update(&mut self, state: &LiveState) {
        let now = Instant::now();
        if !self.is_due(state, now) {
            return;
        }
        self.drawn = Some(now);
        self.phase = state.phase.number;
        match &self.bar {
            Some(bar) => bar.set_message(screen(state, self.paint).join("\n")),
            None => print(&line(state)),
        }
    }

    /// Prints a line that stays on the screen, such as a violation. Quiet mode prints none.
    pub fn note(&self, text: &str) {
        match (&self.bar, self.mode) {
            (_, Mode::Quiet) => {}
            (Some(bar), _) => bar.suspend(|| print(&plain(text))),
            (None, _) => print(&plain(text)),
        }
    }

    /// Removes the view from the screen, because the summary contains all of it.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn is_due(&self, state: &LiveState, now: Instant) -> bool {
        let Some(drawn) = self.drawn else { return self.mode != Mode::Quiet };
        let since = now.duration_since(drawn);
        match self.mode {
            Mode::Screen => since * DRAWS_PER_SECOND.into() >= Duration::from_secs(1),
            Mode::Lines => since >= LINES_EVERY || state.phase.number != self.phase,
            Mode::Quiet => false,
        }
    }
}

impl MemberCounts {
    pub fn add(&mut self, state: State, members: u32) {
        if let Some(at) = STATES.iter().position(|(s, _)| *s == state) {
            self.counts[at] += members;
        }
    }

    pub fn get(&self, state: State) -> u32 {
        self.each().find(|(s, ..)| *s == state).map_or(0, |(.., members)| members)
    }

    pub fn total(&self) -> u32 {
        self.counts.iter().sum()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (State, &'static str, u32)> {
        STATES.iter().zip(self.counts).map(|(&(state, name), members)| (state, name, members))
    }
}

/// Prints a line. Unlike `eprintln!` it ignores errors: a closed standard error must not end the
/// run.
fn print(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn screen(state: &LiveState, paint: Paint) -> Vec<String> {
    let mut lines = vec![title(state, paint), phase(&state.phase, paint), members(state, paint)];
    lines.push(format!("{:LABEL$} {}", "", member_bar(&state.members, WIDTH - LABEL - 1, paint)));
    lines.push(groups(state, paint));
    lines.extend(loads(&state.loads, paint));
    lines.push(verdict(state, paint));
    lines
}

fn title(state: &LiveState, paint: Paint) -> String {
    let elapsed = clock(state.elapsed.as_secs_f64());
    let scenario = shortened(&plain(&state.scenario), WIDTH - 30);
    let left = format!("muster-load  {scenario}");
    let gap = WIDTH.saturating_sub(left.chars().count());
    format!("muster-load  {}{}", paint.bold(&scenario), paint.dim(&format!("{elapsed:>gap$}")))
}

/// The line of the phase, such as `phase 2/4   restart ━━━━━━━━━━━───────── 18 s of 40 s`.
fn phase(phase: &LivePhase, paint: Paint) -> String {
    let label = format!("phase {}/{}", phase.number, phase.of);
    let name = shortened(&plain(&phase.name), 24);
    let elapsed = clock(phase.elapsed.as_secs_f64());
    let Some(planned) = phase.planned.filter(|planned| !planned.is_zero()) else {
        return format!("{label:LABEL$} {}  {elapsed}", paint.bold(&name));
    };
    let time = format!("{elapsed} of {}", clock(planned.as_secs_f64()));
    let taken = LABEL + name.chars().count() + time.chars().count() + 5;
    let width = WIDTH.saturating_sub(taken);
    let share = (phase.elapsed.as_secs_f64() / planned.as_secs_f64()).min(1.0);
    let done = (width as f64 * share).round() as usize;
    let (full, rest) = ("━".repeat(done), "─".repeat(width - done));
    format!(
        "{label:LABEL$} {}  {}{}  {time}",
        paint.bold(&name),
        paint.cool(&full),
        paint.dim(&rest)
    )
}

fn members(state: &LiveState, paint: Paint) -> String {
    let shown = state.members.each().filter(|&(state, _, n)| n > 0 || state == State::Stable);
    let states: Vec<_> = shown
        .map(|(state, name, n)| coloured(state, paint, &format!("{} {name}", count(n.into()))))
        .collect();
    format!("{:LABEL$} {}", "members", states.join("  "))
}

/// A bar of the members by state. The number of characters of a state is proportional to its
/// members, but at least one if it has any.
fn member_bar(members: &MemberCounts, width: usize, paint: Paint) -> String {
    let total = members.total().max(1) as usize;
    let mut left = width;
    let mut bar = String::new();
    for (state, _, n) in members.each().filter(|(.., n)| *n > 0) {
        let cells = (n as usize * width / total).max(1).min(left);
        left -= cells;
        bar.push_str(&coloured(state, paint, &glyph(state).repeat(cells)));
    }
    bar
}

/// The character for a state, on terminals without colours.
fn glyph(state: State) -> &'static str {
    match state {
        State::Stable => "█",
        State::Reconciling => "▓",
        State::Joining | State::Searching => "▒",
        State::Fenced | State::Failed => "!",
        State::Down => "·",
    }
}

fn coloured(state: State, paint: Paint, text: &str) -> String {
    match state {
        State::Stable => paint.good(text),
        State::Reconciling => paint.warm(text),
        State::Joining | State::Searching => paint.cool(text),
        State::Fenced | State::Failed => paint.bad(text),
        State::Down => paint.dim(text),
    }
}

fn groups(state: &LiveState, paint: Paint) -> String {
    let stable =
        format!("{} of {} stable", count(state.groups_stable.into()), count(state.groups.into()));
    let unowned = format!("{} partitions without owner", count(state.partitions_unowned.into()));
    let unowned = if state.partitions_unowned > 0 { paint.warm(&unowned) } else { unowned };
    let mut lines = format!("{:LABEL$} {stable}  {unowned}\n", "groups");
    lines += &format!("{:LABEL$} {}", "rebalances", count(state.rebalances));
    if let Some(last) = &state.last_rebalance {
        lines += &paint.dim(&format!("  last: {}", shortened(&plain(last), WIDTH - LABEL - 20)));
    }
    lines
}

fn loads(loads: &[LiveLoad], paint: Paint) -> Vec<String> {
    let head = format!("{:NAME$} {:>12} {:>12} {:>12}", "", "a second", "p50", "p99");
    let row = |load: &LiveLoad| {
        let (p50, p99) = if load.per_second > 0.0 {
            (millis(load.p50), millis(load.p99))
        } else {
            ("–".into(), "–".into())
        };
        let (name, rate) = (shortened(&plain(&load.name), NAME), number(load.per_second));
        format!("{name:NAME$} {rate:>12} {p50:>12} {p99:>12}")
    };
    let rows = loads.iter().map(row);
    [paint.dim(&head)].into_iter().filter(|_| !loads.is_empty()).chain(rows).collect()
}

fn verdict(state: &LiveState, paint: Paint) -> String {
    let errors = counted(state.errors, "error");
    let errors = if state.errors > 0 { paint.warm(&errors) } else { errors };
    let violations = counted(state.violations, "violation");
    let violations =
        if state.violations > 0 { paint.bad(&violations) } else { paint.good(&violations) };
    let connections = paint.dim(&counted(state.connections.into(), "connection"));
    let waiting = waiting(state).map_or(String::new(), |text| paint.warm(&format!("  {text}")));
    format!("{:LABEL$} {violations}  {errors}  {connections}{waiting}", "checks")
}

/// The number of requests that wait for an answer, and the age of the oldest, such as
/// `250 unanswered for up to 12 s`. `None` if no request waits.
fn waiting(state: &LiveState) -> Option<String> {
    let longest = clock(state.waiting_longest.as_secs_f64());
    (state.waiting > 0).then(|| format!("{} unanswered for up to {longest}", count(state.waiting)))
}

/// The whole state in one line, without colours.
fn line(state: &LiveState) -> String {
    let mut parts = vec![
        format!("{:>8.1} s", state.elapsed.as_secs_f64()),
        format!("phase {}/{} {}", state.phase.number, state.phase.of, plain(&state.phase.name)),
    ];
    let states = state.members.each().filter(|&(state, _, n)| n > 0 || state == State::Stable);
    let states: Vec<_> = states.map(|(_, name, n)| format!("{} {name}", count(n.into()))).collect();
    parts.push(format!("members {}", states.join(", ")));
    parts.push(format!("groups {}/{} stable", state.groups_stable, state.groups));
    parts.push(format!("{} unowned", count(state.partitions_unowned.into())));
    for load in state.loads.iter().filter(|load| load.per_second > 0.0) {
        let (rate, p99) = (number(load.per_second), millis(load.p99));
        parts.push(format!("{} {rate}/s p99 {p99}", plain(&load.name)));
    }
    parts.extend(waiting(state));
    parts.push(format!("errors {}", count(state.errors)));
    parts.push(format!("violations {}", count(state.violations)));
    parts.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> LiveState {
        let mut members = MemberCounts::default();
        members.add(State::Stable, 4_480);
        members.add(State::Reconciling, 15);
        members.add(State::Down, 505);
        LiveState {
            scenario: "crash".into(),
            elapsed: Duration::from_millis(42_300),
            phase: LivePhase {
                name: "crash".into(),
                number: 2,
                of: 4,
                elapsed: Duration::from_secs(18),
                planned: Some(Duration::from_secs(40)),
            },
            members,
            groups: 1,
            rebalances: 3,
            last_rebalance: Some("500 crashed: 2.31 s".into()),
            partitions_unowned: 17,
            loads: vec![LiveLoad {
                name: "heartbeat".into(),
                per_second: 1_633.4,
                p50: 0.212,
                p99: 1.25,
            }],
            errors: 12,
            connections: 4_495,
            ..LiveState::default()
        }
    }

    #[test]
    fn the_screen_shows_the_state_in_few_lines() {
        let shown = screen(&state(), Paint::PLAIN).join("\n");
        let expected = "\
muster-load  crash                                                        42 s
phase 2/4   crash  ━━━━━━━━━━━━━━━━━━━━─────────────────────────  18 s of 40 s
members     4,480 stable  15 reconciling  505 down
            ███████████████████████████████████████████████████████████▓······
groups      0 of 1 stable  17 partitions without owner
rebalances  3  last: 500 crashed: 2.31 s
                       a second          p50          p99
heartbeat                 1,633       212 µs      1.25 ms
checks      0 violations  12 errors  4,495 connections";
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn without_a_terminal_the_state_is_one_line() {
        assert_eq!(
            line(&state()),
            "    42.3 s | phase 2/4 crash | members 4,480 stable, 15 reconciling, 505 down | \
             groups 0/1 stable | 17 unowned | heartbeat 1,633/s p99 1.25 ms | errors 12 | \
             violations 0"
        );
    }

    #[test]
    fn what_is_not_answered_shows_at_once() {
        let waiting_longest = Duration::from_secs(12);
        let state = LiveState { waiting: 250, waiting_longest, ..state() };
        let shown = screen(&state, Paint::PLAIN).pop().unwrap();
        assert!(shown.ends_with("4,495 connections  250 unanswered for up to 12 s"), "{shown}");
        assert!(line(&state).contains(" | 250 unanswered for up to 12 s | errors 12 | "));
    }

    #[test]
    fn lines_are_due_after_an_interval_and_at_a_new_phase() {
        let mut live = Live::new(Mode::Lines);
        let (mut state, now) = (state(), Instant::now());
        assert!(live.is_due(&state, now), "the first");
        (live.drawn, live.phase) = (Some(now), state.phase.number);
        assert!(!live.is_due(&state, now + Duration::from_secs(4)));
        assert!(live.is_due(&state, now + Duration::from_secs(5)));
        state.phase.number += 1;
        assert!(live.is_due(&state, now), "a new phase");
        assert!(!Live::new(Mode::Quiet).is_due(&state, now));
    }
}
