//! The alarm of a core: the timer that wakes the core when its next request is due. If the alarm is
//! late, the request is sent too late.
//!
//! A core uses the alarm for all its timers, because the timers of the async runtime are rounded to
//! milliseconds.

#[cfg(target_os = "linux")]
pub(super) use self::exact::Alarm;
#[cfg(not(target_os = "linux"))]
pub(super) use self::rounded::Alarm;

/// A kernel timer. The timers of the runtime fire up to two milliseconds late.
#[cfg(target_os = "linux")]
mod exact {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    pub(in crate::driver) struct Alarm(AsyncFd<OwnedFd>);

    impl Alarm {
        #[expect(deprecated, reason = "sound for an owned descriptor; the other is unsafe")]
        pub(in crate::driver) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            AsyncFd::with_interest(timer, Interest::READABLE).map(Self)
        }

        /// Sets the alarm to go off after `rest`, instead of any earlier setting.
        pub(in crate::driver) fn set(&mut self, rest: Duration) -> io::Result<()> {
            let once = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: Timespec {
                    tv_sec: rest.as_secs().try_into().unwrap_or(i64::MAX),
                    // Zero would switch the alarm off.
                    tv_nsec: rest.subsec_nanos().max(1).into(),
                },
            };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
            Ok(())
        }

        /// Is ready when the alarm goes off. After a call of [`Self::set`], it may be ready once
        /// too early, because of the previous setting.
        pub(in crate::driver) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            ready!(self.0.poll_read_ready(cx))?.clear_ready();
            Poll::Ready(Ok(()))
        }
    }
}

#[cfg(any(test, not(target_os = "linux")))]
mod rounded {
    use std::future::Future;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use tokio::time::{Instant, Sleep, sleep};

    pub(in crate::driver) struct Alarm(Pin<Box<Sleep>>);

    impl Alarm {
        pub(in crate::driver) fn new() -> io::Result<Self> {
            Ok(Self(Box::pin(sleep(Duration::ZERO))))
        }

        pub(in crate::driver) fn set(&mut self, rest: Duration) -> io::Result<()> {
            self.0.as_mut().reset(Instant::now() + rest);
            Ok(())
        }

        pub(in crate::driver) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0.as_mut().poll(cx).map(Ok)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::{Duration, Instant};

    use tokio::time::timeout;

    use super::super::runtime::Runtime;

    /// The body of a test that runs on both kinds of alarm.
    macro_rules! goes_off {
        ($alarm:ty) => {
            Runtime::new().unwrap().run(async {
                let mut alarm = <$alarm>::new().unwrap();
                for (before, millis) in [(3_600_000, 5), (3_600_000, 1), (0, 20)] {
                    alarm.set(Duration::from_millis(before)).unwrap();
                    let (began, rest) = (Instant::now(), Duration::from_millis(millis));
                    alarm.set(rest).unwrap();
                    while began.elapsed() < rest {
                        let goes_off = poll_fn(|cx| alarm.poll(cx));
                        timeout(Duration::from_secs(60), goes_off).await.unwrap().unwrap();
                    }
                }
            });
        };
    }

    #[test]
    fn an_alarm_goes_off_at_what_it_was_set_to_last() {
        goes_off!(super::Alarm);
        goes_off!(super::rounded::Alarm);
    }
}
