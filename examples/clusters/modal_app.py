"""Transcribe a plan on Modal: each call of the function is a shard of the plan.

whisperbatch plan s3://talks/2026 -o s3://jobs/talks.plan
modal run examples/clusters/modal_app.py --plan s3://jobs/talks.plan --shards 200
"""

import subprocess

import modal

image = (
    modal.Image.debian_slim(python_version="3.12")
    .add_local_dir(".", "/src", copy=True, ignore=[".venv*", ".git", ".cache"])
    .run_commands('pip install "/src[models,openvino,cli]" s3fs')
)
app = modal.App("whisperbatch", image=image)
credentials = modal.Secret.from_name("s3-credentials")  # AWS_ACCESS_KEY_ID, ...


@app.function(
    cpu=4, memory=4096, timeout=12 * 3600, retries=5, max_containers=20, secrets=[credentials]
)
def work(plan: str, shard: int, shards: int) -> None:
    """Transcribe a shard. Modal calls it again if the worker fails or the machine is preempted."""
    command = ["whisperbatch", "work", plan, "--shard", f"{shard}/{shards}"]
    subprocess.run(command, check=True)


@app.local_entrypoint()
def main(plan: str, shards: int = 200) -> None:
    """Run all shards, and print those that must run again."""
    calls = [(plan, shard, shards) for shard in range(shards)]
    for shard, result in enumerate(work.starmap(calls, return_exceptions=True)):
        if result is not None:
            print(f"shard {shard}: {result}")
