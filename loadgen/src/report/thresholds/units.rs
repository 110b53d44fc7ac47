//! The figures that a rule compares, and their units.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Unequal,
}

/// Longer signs come first, because `<=` begins with `<`.
pub(super) const COMPARISONS: [(Comparison, &str); 6] = [
    (Comparison::LessOrEqual, "<="),
    (Comparison::GreaterOrEqual, ">="),
    (Comparison::Equal, "=="),
    (Comparison::Unequal, "!="),
    (Comparison::Less, "<"),
    (Comparison::Greater, ">"),
];

impl Comparison {
    pub(super) fn holds(self, measured: f64, bound: f64) -> bool {
        match self {
            Self::Less => measured < bound,
            Self::LessOrEqual => measured <= bound,
            Self::Greater => measured > bound,
            Self::GreaterOrEqual => measured >= bound,
            Self::Equal => measured == bound,
            Self::Unequal => measured != bound,
        }
    }
}

/// The quantity of a metric. Durations are in milliseconds, sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Quantity {
    Duration,
    Size,
    Number,
}

impl Quantity {
    pub(super) const fn units(self) -> &'static str {
        match self {
            Self::Duration => "a duration: us, ms, s or min",
            Self::Size => "a size: B, KiB, MiB or GiB",
            Self::Number => "a number without a unit",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    One,
    Microseconds,
    Milliseconds,
    Seconds,
    Minutes,
    Bytes,
    Kibibytes,
    Mebibytes,
    Gibibytes,
}

pub(super) const UNITS: [(&str, Unit); 10] = [
    ("", Unit::One),
    ("us", Unit::Microseconds),
    ("µs", Unit::Microseconds),
    ("ms", Unit::Milliseconds),
    ("s", Unit::Seconds),
    ("min", Unit::Minutes),
    ("B", Unit::Bytes),
    ("KiB", Unit::Kibibytes),
    ("MiB", Unit::Mebibytes),
    ("GiB", Unit::Gibibytes),
];

impl Unit {
    pub(super) const fn quantity(self) -> Quantity {
        match self {
            Self::One => Quantity::Number,
            Self::Microseconds | Self::Milliseconds | Self::Seconds | Self::Minutes => {
                Quantity::Duration
            }
            Self::Bytes | Self::Kibibytes | Self::Mebibytes | Self::Gibibytes => Quantity::Size,
        }
    }

    /// How many milliseconds or bytes the unit has.
    pub(super) const fn factor(self) -> f64 {
        match self {
            Self::Microseconds => 1e-3,
            Self::One | Self::Milliseconds | Self::Bytes => 1.0,
            Self::Seconds => 1e3,
            Self::Minutes => 60e3,
            Self::Kibibytes => 1024.0,
            Self::Mebibytes => 1_048_576.0,
            Self::Gibibytes => 1_073_741_824.0,
        }
    }

    pub(super) fn name(self) -> &'static str {
        UNITS.iter().find(|(_, unit)| *unit == self).map_or("", |(name, _)| name)
    }
}
