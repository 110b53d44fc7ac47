//! The search for the largest size that the cluster withstands. It doubles the size until the
//! cluster breaks a rule. If the first size already breaks one, it halves the size until no rule
//! breaks. Then it repeatedly tries the middle between the largest size that held and the smallest
//! size that broke.

/// The state of the search: the largest size that held, and the smallest size that broke.
#[derive(Clone, Debug)]
pub struct Search {
    first: u64,
    most: u64,
    /// The search ends when the distance between the two sizes, divided by the lower size, is at
    /// most this.
    precision: f64,
    holds: Option<u64>,
    breaks: Option<u64>,
}

impl Search {
    /// Searches the sizes from 1 to `most`, beginning with `first`.
    pub fn new(first: u64, most: u64, precision: f64) -> Self {
        let most = most.max(1);
        Self { first: first.clamp(1, most), most, precision, holds: None, breaks: None }
    }

    /// The next size to try. `None` once the answer is known.
    pub fn next(&self) -> Option<u64> {
        match (self.holds, self.breaks) {
            (None, None) => Some(self.first),
            (Some(holds), None) => {
                (holds < self.most).then(|| holds.saturating_mul(2).min(self.most))
            }
            (None, Some(breaks)) => (breaks > 1).then_some(breaks / 2),
            (Some(holds), Some(breaks)) => {
                let between = breaks - holds;
                let is_near = between as f64 <= self.precision * holds as f64;
                (between > 1 && !is_near).then_some(holds + between / 2)
            }
        }
    }

    /// Records whether `size`, which [`Self::next`] returned, held.
    pub fn tried(&mut self, size: u64, held: bool) {
        if held {
            self.holds = Some(size);
        } else {
            self.breaks = Some(size);
        }
    }

    /// The largest size that held.
    pub fn holds(&self) -> Option<u64> {
        self.holds
    }

    /// The smallest size that broke.
    pub fn breaks(&self) -> Option<u64> {
        self.breaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that a search tries if a server holds up to `limit`.
    fn tried(mut search: Search, limit: u64) -> (Vec<u64>, Search) {
        let mut sizes = Vec::new();
        while let Some(size) = search.next() {
            assert!(sizes.len() < 100, "{sizes:?}");
            sizes.push(size);
            search.tried(size, size <= limit);
        }
        (sizes, search)
    }

    #[test]
    fn it_doubles_and_then_halves_the_step() {
        let (sizes, search) = tried(Search::new(100, 100_000, 0.1), 6_800);
        let expected = [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 9_600, 8_000, 7_200, 6_800];
        assert_eq!(sizes, expected);
        assert_eq!((search.holds(), search.breaks()), (Some(6_800), Some(7_200)));
    }

    #[test]
    fn each_limit_is_found_within_the_precision() {
        for limit in (1..3_000).chain([99_998, 99_999]) {
            for precision in [0.0, 0.05, 0.5] {
                let (sizes, search) = tried(Search::new(64, 100_000, precision), limit);
                let (holds, breaks) = (search.holds().unwrap(), search.breaks().unwrap());
                assert!(holds <= limit && limit < breaks, "{limit}: {sizes:?}");
                let close = (breaks - holds) as f64 <= precision * holds as f64;
                assert!(close || breaks - holds == 1, "{limit}: {sizes:?}");
                assert!(sizes.len() <= 30, "{limit}: {sizes:?}");
            }
        }
    }

    #[test]
    fn it_ends_at_the_most_that_is_allowed_and_at_one() {
        let (sizes, search) = tried(Search::new(100, 300, 0.1), 1_000);
        assert_eq!((&sizes[..], search.holds()), (&[100, 200, 300][..], Some(300)));
        assert_eq!(search.breaks(), None);
        let (sizes, search) = tried(Search::new(4, 300, 0.1), 0);
        assert_eq!((&sizes[..], search.holds()), (&[4, 2, 1][..], None));
        assert_eq!(search.breaks(), Some(1));
    }
}
