"""Spark's structured streaming copies a topic: each second it copies the new records. Its offsets
are in a checkpoint."""

import os

from pyspark.sql import SparkSession

BOOTSTRAP, TOPIC, STATE = (os.environ[name] for name in ("BOOTSTRAP", "TOPIC", "STATE"))

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.warehouse.dir", f"{STATE}/warehouse")
    .config("spark.driver.extraClassPath", os.environ["JARS"])
    .config("spark.driver.memory", "512m")  # the minimum with which Spark starts
    .getOrCreate()
)
inputs = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", BOOTSTRAP)
    .option("subscribe", TOPIC)
    .option("startingOffsets", "earliest")
    .load()
)
(
    inputs.select("key", "value")
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", BOOTSTRAP)
    .option("topic", f"{TOPIC}-copy")
    .option("checkpointLocation", f"{STATE}/checkpoint")
    .trigger(processingTime="1 second")
    .start()
    .awaitTermination()
)
