//! Test cases that take long and mostly wait.

use std::sync::Mutex;
use std::thread;

/// Judges the cases, `together` at the same time, and panics with all problems. If the environment
/// variable `LUCARNE_FAULT` is set, only the cases with its value in their names run.
pub(crate) fn judge_all<C: Sync>(
    cases: &[C],
    together: usize,
    name: impl Fn(&C) -> String,
    judge: impl Fn(&C) -> Result<(), String> + Sync,
) {
    let only = std::env::var("LUCARNE_FAULT").ok();
    let chosen = |case: &&C| only.as_ref().is_none_or(|only| name(case).contains(only));
    let waiting: Mutex<Vec<&C>> = Mutex::new(cases.iter().rev().filter(chosen).collect());
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..together {
            scope.spawn(|| {
                loop {
                    let Some(case) = waiting.lock().unwrap().pop() else {
                        return;
                    };
                    if let Err(words) = judge(case) {
                        wrong.lock().unwrap().push(words);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{}\n{} of {} are wrong",
        wrong.join("\n"),
        wrong.len(),
        cases.len()
    );
}
