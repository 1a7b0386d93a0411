//! Prints the table of the README: how many presences the sampling finds, and how fast.
//!
//! `cargo run --release -p sensor-bridge --example sampling-table [OFFSET]`; an offset is added to
//! the seeds, to see that the figures are not those of chosen seeds.

use std::io::Write;

use anyhow::Context;

#[path = "../src/pipeline/simulate/mod.rs"]
mod simulate;

const PRESENCES: usize = 1_000;

fn main() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "| active streams | sampling | found | median delay | 95 % | unsound | posts/s | seeds |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    let offset: u64 = std::env::args().nth(1).map_or(Ok(0), |text| text.parse())?;
    for mut cell in simulate::CELLS {
        cell.seed += offset;
        let result = simulate::run(cell, PRESENCES)?;
        let rounds = result.presences.div_ceil(usize::try_from(cell.streams)?);
        let last = cell.seed + u64::try_from(rounds)? - 1;
        let sampling = cell.smooth.map_or_else(|| "strict".to_owned(), |n| format!("smooth {n}"));
        let median = result.delay(500).context("nothing was found")?.as_secs_f64();
        let most = result.delay(950).context("nothing was found")?.as_secs_f64();
        // Each round is 26 s of frames.
        let seconds = u32::try_from(rounds * 26)?;
        let posts = f64::from(u32::try_from(result.posts)?) / f64::from(seconds);
        writeln!(
            out,
            "| {} | {sampling} | {} of {} ({} per 1,000) | {median:.2} s | {most:.2} s | {} of {} | {posts:.1} | {} to {last} |",
            cell.streams,
            result.delays.len(),
            result.presences,
            result.found_per_mille(),
            result.unsound,
            result.firings,
            cell.seed,
        )?;
    }
    Ok(())
}
