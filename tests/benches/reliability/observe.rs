//! What `/proc` says of the processes of a run: memory, descriptors, zombies.

use grounding_tests::process::proportional_memory;

/// Memory and descriptors of the daemon and of all shims together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Proportional memory of the daemon, in bytes.
    pub(crate) daemon: u64,
    /// Proportional memory of the shims, in bytes.
    pub(crate) shims: u64,
}

/// Looks at the processes now; nothing when one of them has just gone.
pub(crate) fn sample(daemon: u32, shims: &[u32]) -> Option<Sample> {
    let shims = shims.iter().map(|pid| proportional_memory(*pid)).sum::<Option<u64>>()?;
    Some(Sample { daemon: proportional_memory(daemon)?, shims })
}

/// Returns how many descriptors a process has open.
pub(crate) fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Returns the zombies among the children of these processes.
pub(crate) fn zombies_of(parents: &[u32]) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten();
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<_> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let parent = fields.get(1).and_then(|parent| parent.parse().ok());
        fields.first() == Some(&"Z") && parent.is_some_and(|parent| parents.contains(&parent))
    })
    .collect()
}

/// Returns by how many percent the end of a run of samples lies above its beginning, each as the mean of a quarter.
#[expect(clippy::cast_precision_loss, reason = "bytes, far below 2^52")]
pub(crate) fn growth(samples: &[u64]) -> f64 {
    let quarter = (samples.len() / 4).max(1);
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
    let (Some(first), Some(last)) = (samples.get(..quarter), samples.get(samples.len().saturating_sub(quarter)..))
    else {
        return 0.0;
    };
    (mean(last) / mean(first) - 1.0) * 100.0
}
