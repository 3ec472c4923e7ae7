//! A piecewise linear value over time.

use std::time::Duration;

use super::Stage;

/// Limit of times in seconds: ten years, which any clock can add.
const FOR_EVER: f64 = 315_360_000.0;

/// A piecewise linear value over time; zero before and after the pieces.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ramp(Vec<Piece>);

/// A linear piece from `from` at `begin` to `to` at `end`, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    begin: f64,
    end: f64,
    from: f64,
    to: f64,
    /// Area below all earlier pieces.
    before: f64,
}

impl Ramp {
    pub(crate) fn constant(value: f64, duration: Duration) -> Self {
        let stage = Stage {
            duration,
            target: value,
        };
        Ramp::new(value, &[stage], |target| target)
    }

    pub(crate) fn new(start: f64, stages: &[Stage], scale: impl Fn(f64) -> f64) -> Self {
        let (mut at, mut value, mut area) = (0.0, start.max(0.0), 0.0);
        let mut pieces = Vec::new();
        for stage in stages {
            let end = (at + stage.duration.as_secs_f64()).min(FOR_EVER);
            let to = scale(stage.target).max(0.0);
            if end > at {
                let piece = Piece {
                    begin: at,
                    end,
                    from: value,
                    to,
                    before: area,
                };
                area += piece.area(end);
                pieces.push(piece);
            }
            (at, value) = (end, to);
        }
        Ramp(pieces)
    }

    /// Returns the end in seconds.
    pub(crate) fn end(&self) -> f64 {
        self.0.last().map_or(0.0, |piece| piece.end)
    }

    /// Returns the value at a time; zero outside the pieces.
    pub(crate) fn at(&self, seconds: f64) -> f64 {
        let piece = self
            .0
            .iter()
            .find(|piece| (piece.begin..piece.end).contains(&seconds));
        piece.map_or(0.0, |piece| piece.at(seconds))
    }

    /// Returns the area up to a time: for a rate, the number of arrivals.
    pub(crate) fn area(&self, seconds: f64) -> f64 {
        let piece = self.0.iter().rev().find(|piece| piece.begin <= seconds);
        piece.map_or(0.0, |piece| {
            piece.before + piece.area(seconds.min(piece.end))
        })
    }

    /// Returns the earliest time at which the area exceeds this value; `None` if the area never
    /// exceeds the value.
    pub(crate) fn reaches(&self, area: f64) -> Option<f64> {
        let piece = self
            .0
            .iter()
            .find(|piece| piece.before + piece.area(piece.end) > area)?;
        Some((piece.begin + piece.reaches(area - piece.before)).clamp(piece.begin, piece.end))
    }
}

impl Piece {
    fn slope(&self) -> f64 {
        (self.to - self.from) / (self.end - self.begin)
    }

    fn at(&self, seconds: f64) -> f64 {
        self.from + self.slope() * (seconds - self.begin)
    }

    /// Returns the area below this piece only.
    fn area(&self, seconds: f64) -> f64 {
        let along = seconds - self.begin;
        along * (self.from + self.slope() * along / 2.0)
    }

    /// Solves `from·x + slope·x²/2 = area` in the form without cancellation.
    fn reaches(&self, area: f64) -> f64 {
        if area <= 0.0 {
            return 0.0;
        }
        let root = (self.from * self.from + 2.0 * self.slope() * area)
            .max(0.0)
            .sqrt();
        2.0 * area / (self.from + root)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(duration: f64, target: f64) -> Stage {
        Stage {
            duration: Duration::from_secs_f64(duration),
            target,
        }
    }

    #[test]
    fn a_stage_of_no_length_jumps() {
        let ramp = Ramp::new(
            10.0,
            &[seconds(5.0, 10.0), seconds(0.0, 40.0), seconds(5.0, 40.0)],
            |t| t,
        );
        assert_eq!(
            (ramp.at(4.9), ramp.at(5.0), ramp.at(10.0)),
            (10.0, 40.0, 0.0)
        );
        assert_eq!(ramp.area(10.0), 250.0);
    }

    #[test]
    fn an_endless_stage_ends_before_clocks_do() {
        let ramp = Ramp::constant(1.0, Duration::MAX);
        assert_eq!(ramp.end(), FOR_EVER);
    }

    fn stages() -> impl Strategy<Value = Vec<Stage>> {
        let stage = (0.0..20.0, prop_oneof![Just(0.0), 0.0..500.0]);
        let stage = stage.prop_map(|(duration, target)| seconds(duration, target));
        prop::collection::vec(stage, 1..5)
    }

    proptest! {
        #[test]
        fn reaching_is_the_reverse_of_area(start in 0.0..500.0, stages in stages(), part in 0.0..1.0) {
            let ramp = Ramp::new(start, &stages, |target| target);
            let area = ramp.area(ramp.end()) * part;
            if let Some(time) = ramp.reaches(area) {
                prop_assert!((ramp.area(time) - area).abs() < 1e-6 * (1.0 + area));
            } else {
                prop_assert!(area >= ramp.area(ramp.end()) * 0.999_999);
            }
        }

        #[test]
        fn area_is_the_integral(start in 0.0..500.0, stages in stages()) {
            let ramp = Ramp::new(start, &stages, |target| target);
            let steps = 20_000;
            let step = ramp.end() / f64::from(steps);
            let sum: f64 = (0..steps).map(|i| ramp.at((f64::from(i) + 0.5) * step) * step).sum();
            prop_assert!((sum - ramp.area(ramp.end())).abs() < 500.0 * 8.0 * step.max(1e-9));
        }
    }
}
